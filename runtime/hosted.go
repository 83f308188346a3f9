package runtime

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/engine"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/permission"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// hosted is an agent as this runtime serves it.
type hosted struct {
	id      string
	engine  *engine.Engine // nil: the agent is unavailable
	fault   error          // why it is
	init    wire.Init      // of its runs, without what differs between them
	summary wire.AgentSummary
	detail  wire.AgentDetail
}

// host resolves the agents of the configuration.
func (rt *Runtime) host(ctx context.Context) error {
	if err := (&agent.File{Agents: rt.cfg.Agents, Limits: rt.cfg.Limits}).Validate(); err != nil {
		return err
	}
	for i := range rt.cfg.Agents {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		h := rt.hostOne(&rt.cfg.Agents[i])
		rt.agents = append(rt.agents, h)
		rt.byID[h.id] = h
	}
	return nil
}

func (rt *Runtime) hostOne(def *agent.Agent) *hosted {
	h := &hosted{id: def.ID}
	status := wire.StatusReady
	if h.engine, h.fault = rt.resolve(def); h.fault != nil {
		h.engine, status = nil, wire.StatusUnavailable
		rt.cfg.Logger.Error("agent is unavailable", "agent", def.ID, "err", h.fault)
	}
	tools := []string{}
	if h.engine != nil {
		tools = h.engine.Tools()
	}
	h.summary = def.Summary(status, len(tools))
	h.detail = def.Detail(status, nil)
	h.init = wire.Init{
		AgentID: def.ID, Model: def.Model, CWD: rt.cfg.CWD,
		Tools: tools, Skills: []string{}, MCPServers: servers(def),
		PermissionMode: string(permissionMode(def)),
	}
	return h
}

// servers tells of the MCP servers of an agent, which this runtime connects to none of.
func servers(def *agent.Agent) []wire.MCPStatus {
	list := []wire.MCPStatus{}
	for _, name := range slices.Sorted(maps.Keys(def.MCPServers)) {
		list = append(list, wire.MCPStatus{Name: name, Status: "failed"})
	}
	return list
}

func permissionMode(def *agent.Agent) permission.Mode {
	if def.PermissionMode == "" {
		return permission.ModeDefault
	}
	return permission.Mode(def.PermissionMode)
}

// resolve makes the engine of an agent, or says why there can be none.
func (rt *Runtime) resolve(def *agent.Agent) (*engine.Engine, error) {
	if err := def.Check(); err != nil {
		return nil, err
	}
	if err := rt.unsupported(def); err != nil {
		return nil, err
	}
	prompt, err := rt.systemPrompt(def)
	if err != nil {
		return nil, err
	}
	m, err := rt.model(def.Provider)
	if err != nil {
		return nil, err
	}
	limits := rt.cfg.Limits
	return engine.New(engine.Config{
		Model: m,
		Request: model.Request{
			Model: def.Model, System: prompt,
			MaxOutputTokens: def.MaxOutputTokens, Temperature: def.Temperature, ThinkingBudget: def.Thinking.BudgetTokens,
		},
		Tools:         rt.cfg.Tools,
		Policy:        permission.New(permissionMode(def), def.AllowedTools, def.DisallowedTools),
		MaxTurns:      def.TurnLimit(),
		RunTimeout:    limits.RunTimeout,
		IdleTimeout:   limits.LLMIdleTimeout,
		ToolTimeout:   limits.ToolTimeout,
		MaxToolOutput: limits.MaxToolOutputBytes,
		Logger:        rt.cfg.Logger.With("agent", def.ID),
	})
}

// unsupported tells what an agent was given that this runtime has nothing to serve it with.
// Custom tools are refused, as any that cannot be loaded; the rest is told, and the agent runs
// without it, as it does without an MCP server that fails.
func (rt *Runtime) unsupported(def *agent.Agent) error {
	if len(def.CustomTools) > 0 {
		return errors.New("customTools are configured, and this runtime has nothing to load them with")
	}
	warn := func(key string, n int) {
		if n > 0 {
			rt.cfg.Logger.Warn("agent runs without a part of its configuration: this runtime has nothing to serve it with", "agent", def.ID, "key", key)
		}
	}
	warn("mcpServers", len(def.MCPServers))
	warn("subagents", len(def.Subagents))
	return nil
}

// systemPrompt reads the prompt and adds what the agent's definition tells the model beside it.
func (rt *Runtime) systemPrompt(def *agent.Agent) (string, error) {
	prompt := def.SystemPrompt
	if file := def.SystemPromptFile; file != "" {
		if !filepath.IsAbs(file) {
			file = filepath.Join(rt.cfg.CWD, file)
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("read system prompt: %w", err)
		}
		prompt = strings.TrimSpace(string(data))
	}
	return strings.TrimPrefix(prompt+datasets(def.Datasets), "\n\n"), nil
}

// datasets lists the agent's data sets for the model, in an order that stays the same.
func datasets(described map[string]string) string {
	if len(described) == 0 {
		return ""
	}
	var block strings.Builder
	block.WriteString("\n\n<datasets>\n")
	for _, id := range slices.Sorted(maps.Keys(described)) {
		fmt.Fprintf(&block, "- %s: %s\n", id, described[id])
	}
	block.WriteString("</datasets>")
	return block.String()
}
