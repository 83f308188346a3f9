package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed93082962/agenthost/internal/agentvalue"
	"github.com/seed93082962/agenthost/internal/skill"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/internal/builtin"
	"github.com/seed93082962/agenthost/runtime/internal/engine"
	"github.com/seed93082962/agenthost/runtime/internal/permission"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/adapter"
	"github.com/seed93082962/agenthost/runtime/tool"
)

// resolve returns the engine of an agent, or the reason why the agent is unavailable. It opens the
// sandbox and the servers of h.
func (rt *Runtime) resolve(h *hosted, def *agent.Agent, skills []skill.Skill, parts *loaded) (*engine.Engine, error) {
	checked := rt.checked(def)
	if err := checked.Check(); err != nil {
		return nil, err
	}

	var faults []error
	for i, err := range parts.toolErrors {
		if err != nil {
			faults = append(faults, fmt.Errorf("load customTools[%d]: %w", i, err))
		}
	}

	faults = append(faults, rt.needsCWD(def))
	prompt, err := rt.systemPrompt(def)
	faults = append(faults, err)
	m, err := rt.model(def.Provider)
	if err = errors.Join(append(faults, err)...); err != nil {
		return nil, err
	}

	tools := slices.Concat(rt.cfg.Tools, parts.tools)
	policy, err := permission.New(permission.Config{
		Mode: permissionMode(def), Allowed: def.AllowedTools, Disallowed: def.DisallowedTools,
		Resolve: rt.resolvePath, CWD: rt.dir.Path(), AgentHome: rt.cfg.AgentHome,
		Protected: rt.protected,
	})
	if err != nil {
		return nil, err
	}

	skills = readableSkills(skills, policy)
	limits := rt.cfg.Limits.Of(def.Limits)
	cfg := engine.Config{
		AgentID: def.ID,
		Name:    cmp.Or(def.Name, def.ID),
		Model:   m,
		Request: model.Request{
			Model: def.Model, System: join(prompt, skillList(skills), datasets(def.Datasets)),
			MaxOutputTokens: def.MaxOutputTokens, Temperature: def.Temperature, Thinking: thinking(def.Thinking),
		},
		Origin:         origin(def.Provider, def.Model),
		Tools:          tools,
		Policy:         policy,
		Approve:        rt.cfg.Approve,
		OutputSchema:   def.OutputSchema,
		MaxTurns:       def.TurnLimit(),
		ContextWindow:  def.ContextWindow,
		RunTimeout:     limits.RunTimeout,
		IdleTimeout:    limits.LLMIdleTimeout,
		ToolTimeout:    limits.ToolTimeout,
		ConnectTimeout: limits.MCPConnectTimeout,
		MaxToolOutput:  limits.MaxToolOutputBytes,
		MaxContent:     rt.cfg.maxContent,
		MaxResponse:    limits.MaxResponseBytes,
		Reserve:        rt.reserve,
		MeterProvider:  rt.cfg.MeterProvider,
		TracerProvider: rt.cfg.TracerProvider,
		TraceContent:   rt.cfg.TraceContent,
		Provider:       def.Provider.Protocol,
		Logger:         rt.cfg.Logger.With("agent", def.ID),
	}
	if cfg.ContextWindow == 0 && def.Provider.Protocol == agent.ProtocolOpenAI {
		cfg.ContextWindow = 128_000 // of the smaller current models with this protocol
	}

	box, state, err := rt.openCommandSandbox(def, skills)
	h.detail.Sandbox = state
	if err != nil {
		return nil, err
	}

	servers := rt.openServers(def)
	if cfg.Subagents, err = rt.subagents(def, cfg, servers, skills, box); err != nil {
		return nil, err
	}

	cfg.Servers = values(servers)
	h.servers = cfg.Servers
	cfg.Builtin = rt.builtin(def, skills, policy, box, limits.MaxToolOutputBytes)
	return engine.New(cfg)
}

func thinking(t agent.Thinking) model.Thinking {
	return model.Thinking{BudgetTokens: t.BudgetTokens, Adaptive: t.Type == agentvalue.ThinkingAdaptive, Effort: t.Effort}
}

// subagents returns the subagents of an agent. They have at most its tools and permissions.
func (rt *Runtime) subagents(def *agent.Agent, parent engine.Config, servers map[string]tool.Server, skills []skill.Skill, box tool.Confiner) ([]engine.Subagent, error) {
	var list []engine.Subagent
	for _, name := range slices.Sorted(maps.Keys(def.Subagents)) {
		sub := def.Subagents[name]
		cfg := parent
		var err error
		if cfg.Policy, err = parent.Policy.Narrow(sub.Tools, sub.DisallowedTools); err != nil {
			return nil, fmt.Errorf("subagent %s: %w", name, err)
		}

		own := only(skills, sub.Skills, func(s skill.Skill) string { return s.Name })
		own = readableSkills(own, cfg.Policy)
		cfg.Builtin = rt.builtin(def, own, cfg.Policy, box, parent.MaxToolOutput)
		cfg.Name, cfg.OutputSchema = name, nil
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

// readableSkills returns the skills whose SKILL.md is not denied by a rule for Read.
func readableSkills(skills []skill.Skill, policy *permission.Policy) []skill.Skill {
	return slices.DeleteFunc(slices.Clone(skills), func(s skill.Skill) bool { return policy.DeniesRead(s.Location) })
}

// only returns the elements that are in names. If names is nil, it returns all of them.
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

// builtin returns the built-in tools of an agent.
func (rt *Runtime) builtin(def *agent.Agent, skills []skill.Skill, policy *permission.Policy, box tool.Confiner, maxOutput int) []tool.Tool {
	cfg := builtin.Config{
		Skills: skills, Hides: policy.Hides, DeniesRead: policy.DeniesRead, Env: rt.commandEnv(def), MaxOutput: maxOutput,
		Sandbox: box,
	}
	if rt.private == "" {
		cfg.Dir = rt.dir
	}

	return builtin.Tools(cfg)
}

// needsCWD returns an error if a definition lists a tool that needs a working directory, of a
// runtime without one.
func (rt *Runtime) needsCWD(def *agent.Agent) error {
	if rt.private == "" {
		return nil
	}

	entries := slices.Clone(def.AllowedTools)
	for _, sub := range def.Subagents {
		entries = append(entries, sub.Tools...)
	}

	for _, entry := range entries {
		name, _, _ := strings.Cut(entry, "(")
		if slices.Contains(builtin.InDir, name) {
			return fmt.Errorf("the tool %s needs Config.CWD, the working directory of the agents", name)
		}
	}

	return nil
}

// resolvePath returns the target of a path in the input of a tool, for the policy. The target need
// not exist: the decision does not show whether it does.
func (rt *Runtime) resolvePath(path string) (string, error) {
	rel, err := rt.dir.Resolve(path)
	if rel != "" {
		err = nil
	}

	return filepath.ToSlash(rel), err
}

// openServers opens the MCP servers of an agent. It does not connect them.
func (rt *Runtime) openServers(def *agent.Agent) map[string]tool.Server {
	servers := map[string]tool.Server{}
	for name, server := range def.MCPServers {
		if path := editablePath(def, &server, rt.cfg.CWD); path != "" {
			rt.cfg.Logger.Warn("the agent's edits can change an MCP server, which uses a path in the working directory",
				"agent", def.ID, "mcp_server", name, "file", path)
		}

		err := errors.New("the runtime is configured without OpenMCP")
		var box tool.Confiner
		if rt.cfg.OpenMCP != nil {
			box, err = rt.openServerSandbox(def, &server)
		}

		if err == nil {
			servers[name], err = rt.cfg.OpenMCP(name, server, rt.cfg.Limits.Of(def.Limits), box)
		}

		if err != nil {
			rt.cfg.Logger.Warn("MCP server cannot be opened", "agent", def.ID, "mcp_server", name, "err", err)
			servers[name] = noServer{name, err}
			continue
		}

		rt.servers = append(rt.servers, servers[name])
	}

	return servers
}

// noServer is a server that could not be opened.
type noServer struct {
	name string
	err  error
}

func (s noServer) Name() string                              { return s.name }
func (s noServer) Status() tool.Status                       { return tool.Failed }
func (s noServer) Fault() error                              { return s.err }
func (s noServer) Tools(context.Context) (*tool.List, error) { return nil, s.err }
func (s noServer) Close() error                              { return nil }

// model returns the model of a provider: the result of NewModel, or else a built-in adapter.
func (rt *Runtime) model(p agent.Provider) (model.Model, error) {
	if rt.cfg.NewModel != nil {
		if m, err := rt.cfg.NewModel(p); m != nil || err != nil {
			return m, err
		}
	}

	return adapter.New(p, rt.client)
}

// origin identifies a model of a provider in the messages of a session. Of the address it has only
// the host: a path or a query may contain a secret.
func origin(p agent.Provider, name string) string {
	host := ""
	if u, err := url.Parse(string(p.BaseURL)); err == nil {
		host = u.Hostname()
	}

	return strings.Join([]string{p.Protocol, host, name}, " ")
}

// systemPrompt returns the prompt of the agent's definition or of its file.
func (rt *Runtime) systemPrompt(def *agent.Agent) (string, error) {
	file := def.SystemPromptFile
	if file == "" {
		return def.SystemPrompt, nil
	}

	if !filepath.IsAbs(file) {
		file = filepath.Join(rt.cfg.CWD, file)
	}

	data, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("read system prompt: %w", err)
	}

	return strings.TrimSpace(string(data)), nil
}

// join joins the parts of a system prompt that are not empty.
func join(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "\n\n")
}

// skillList returns the list of skills for the model, always in the same order.
func skillList(skills []skill.Skill) string {
	skills = slices.DeleteFunc(slices.Clone(skills), func(s skill.Skill) bool { return s.Hidden })
	if len(skills) == 0 {
		return ""
	}

	var block strings.Builder
	block.WriteString("Skills contain instructions for specific tasks. If one of them matches the request, load it with the tool Skill before you start.\n<skills>\n")
	for _, s := range skills {
		fmt.Fprintf(&block, "- %s: %s\n", s.Name, oneLine(s.Description))
	}

	block.WriteString("</skills>")
	return block.String()
}

// datasets returns the list of datasets for the model, always in the same order.
func datasets(described map[string]string) string {
	if len(described) == 0 {
		return ""
	}

	var block strings.Builder
	block.WriteString("<datasets>\n")
	for _, id := range slices.Sorted(maps.Keys(described)) {
		fmt.Fprintf(&block, "- %s: %s\n", id, oneLine(described[id]))
	}

	block.WriteString("</datasets>")
	return block.String()
}

// oneLine removes line breaks, which would look like the start of another entry.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
