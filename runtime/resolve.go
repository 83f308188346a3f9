package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/engine"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/permission"
	"github.com/seed93082962/agenthost/runtime/skill"
	"github.com/seed93082962/agenthost/runtime/tool"
	"github.com/seed93082962/agenthost/runtime/tool/builtin"
)

// resolve makes the engine of an agent, or says why there can be none.
func (rt *Runtime) resolve(def *agent.Agent, skills []skill.Skill, custom []loaded) (*engine.Engine, error) {
	if err := def.Check(); err != nil {
		return nil, err
	}
	tools := slices.Clone(rt.cfg.Tools)
	for i, l := range custom {
		if l.err != nil {
			return nil, fmt.Errorf("load customTools[%d]: %w", i, l.err)
		}
		tools = append(tools, l.tool)
	}
	prompt, err := rt.systemPrompt(def)
	if err != nil {
		return nil, err
	}
	policy, err := permission.New(permission.Config{
		Mode: permissionMode(def), Allowed: def.AllowedTools, Disallowed: def.DisallowedTools,
		Resolve: rt.resolvePath, CWD: rt.dir.Path(), AgentHome: rt.cfg.AgentHome,
	})
	if err != nil {
		return nil, err
	}
	m, err := rt.model(def.Provider)
	if err != nil {
		return nil, err
	}
	limits := rt.cfg.Limits
	cfg := engine.Config{
		Model: m,
		Request: model.Request{
			Model: def.Model, System: join(prompt, skillList(skills), datasets(def.Datasets)),
			MaxOutputTokens: def.MaxOutputTokens, Temperature: def.Temperature, ThinkingBudget: def.Thinking.BudgetTokens,
		},
		Tools:          tools,
		Policy:         policy,
		Approve:        rt.approve(def.ID),
		MaxTurns:       def.TurnLimit(),
		ContextWindow:  def.ContextWindow,
		RunTimeout:     limits.RunTimeout,
		IdleTimeout:    limits.LLMIdleTimeout,
		ToolTimeout:    limits.ToolTimeout,
		ConnectTimeout: limits.MCPConnectTimeout,
		MaxToolOutput:  limits.MaxToolOutputBytes,
		Logger:         rt.cfg.Logger.With("agent", def.ID),
	}
	if cfg.ContextWindow == 0 && def.Provider.Protocol == agent.ProtocolOpenAI {
		cfg.ContextWindow = 128_000 // what the usual models of this protocol have at least
	}
	servers := rt.openServers(def)
	if cfg.Subagents, err = rt.subagents(def, cfg, servers, skills); err != nil {
		return nil, err
	}
	cfg.Servers = values(servers)
	if cfg.Tools, err = rt.withBuiltin(tools, skills, policy); err != nil {
		return nil, err
	}
	return engine.New(cfg)
}

// subagents makes the engines of the subagents from what their agent has. They get no more than it.
func (rt *Runtime) subagents(def *agent.Agent, parent engine.Config, servers map[string]tool.Server, skills []skill.Skill) ([]engine.Subagent, error) {
	var list []engine.Subagent
	for _, name := range slices.Sorted(maps.Keys(def.Subagents)) {
		sub := def.Subagents[name]
		cfg := parent
		var err error
		if cfg.Policy, err = parent.Policy.Narrow(sub.Tools, sub.DisallowedTools); err != nil {
			return nil, fmt.Errorf("subagent %s: %w", name, err)
		}
		own := only(skills, sub.Skills, func(s skill.Skill) string { return s.Name })
		if cfg.Tools, err = rt.withBuiltin(parent.Tools, own, cfg.Policy); err != nil {
			return nil, err
		}
		cfg.Servers = only(values(servers), sub.MCPServers, tool.Server.Name)
		cfg.Request.Model = cmp.Or(sub.Model, cfg.Request.Model)
		cfg.Request.System = join(sub.Prompt, skillList(own))
		cfg.MaxTurns = cmp.Or(sub.MaxTurns, parent.MaxTurns)
		cfg.Logger = cfg.Logger.With("subagent", name)
		e, err := engine.New(cfg)
		if err != nil {
			return nil, fmt.Errorf("subagent %s: %w", name, err)
		}
		list = append(list, engine.Subagent{Name: name, Description: sub.Description, Engine: e})
	}
	return list, nil
}

// only keeps what names lists; nil names list everything.
func only[T any](all []T, names []string, name func(T) string) []T {
	if names == nil {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(v T) bool { return !slices.Contains(names, name(v)) })
}

func values(servers map[string]tool.Server) []tool.Server {
	var list []tool.Server
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		list = append(list, servers[name])
	}
	return list
}

// withBuiltin puts the built-in tools before those that came with the configuration.
func (rt *Runtime) withBuiltin(tools []tool.Tool, skills []skill.Skill, policy *permission.Policy) ([]tool.Tool, error) {
	own, err := builtin.Tools(builtin.Config{
		Dir: rt.dir, Skills: skills, Hides: policy.Hides, Env: rt.cfg.ChildEnv, MaxOutput: rt.cfg.Limits.MaxToolOutputBytes,
	})
	if err != nil {
		return nil, fmt.Errorf("make built-in tools: %w", err)
	}
	return append(own, tools...), nil
}

// resolvePath says for the policy where a path of a tool's input leads, or would lead.
func (rt *Runtime) resolvePath(path string) (string, error) {
	rel, err := rt.dir.Resolve(path)
	if rel != "" && errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return filepath.ToSlash(rel), err
}

// openServers opens the MCP servers of an agent, which connects none of them yet.
func (rt *Runtime) openServers(def *agent.Agent) map[string]tool.Server {
	servers := map[string]tool.Server{}
	for name, server := range def.MCPServers {
		err := errors.New("this runtime has nothing to connect MCP servers with")
		if rt.cfg.MCP != nil {
			if servers[name], err = rt.cfg.MCP(name, server); err == nil {
				rt.servers = append(rt.servers, servers[name])
				continue
			}
		}
		servers[name] = noServer{name, err}
	}
	return servers
}

// noServer stands for a server that cannot be opened.
type noServer struct {
	name string
	err  error
}

func (s noServer) Name() string                               { return s.name }
func (s noServer) Status() tool.Status                        { return tool.Failed }
func (s noServer) Tools(context.Context) ([]tool.Tool, error) { return nil, s.err }
func (s noServer) Close() error                               { return nil }

// approve asks the embedder about the calls of one agent.
func (rt *Runtime) approve(agentID string) func(context.Context, engine.Approval) bool {
	if rt.cfg.Approve == nil {
		return nil
	}
	return func(ctx context.Context, call engine.Approval) bool {
		return rt.cfg.Approve(ctx, Approval{
			AgentID: agentID, RunID: call.RunID, SessionID: call.SessionID, ToolUseID: call.ID,
			Tool: call.Tool, Input: call.Input, Reason: call.Reason,
		})
	}
}
