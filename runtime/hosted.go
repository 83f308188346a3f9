package runtime

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"sync"
	"time"

	"github.com/seed93082962/agenthost/internal/skill"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/internal/engine"
	"github.com/seed93082962/agenthost/runtime/internal/permission"
	"github.com/seed93082962/agenthost/runtime/tool"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// The limits of the time for loading the custom tools and the skill archives of all agents.
const (
	toolTimeout    = 10 * time.Second
	archiveTimeout = 30 * time.Second
)

// hosted is an agent of the runtime.
type hosted struct {
	id      string
	engine  *engine.Engine // nil: the agent is unavailable
	fault   error          // the reason
	init    wire.Init      // of its runs, without the fields that differ between runs
	summary wire.AgentSummary
	detail  wire.AgentDetail // without the state of the servers
	servers []tool.Server
}

// currentDetail returns the detail with the present state of the servers.
func (h *hosted) currentDetail() wire.AgentDetail {
	detail := h.detail
	detail.MCPServers = maps.Clone(detail.MCPServers)
	for _, s := range h.servers {
		server := detail.MCPServers[s.Name()]
		server.Status = string(s.Status())
		if err := s.Fault(); err != nil {
			server.Error = err.Error()
		}

		detail.MCPServers[s.Name()] = server
	}

	return detail
}

// host resolves the agents of the configuration.
func (rt *Runtime) host(ctx context.Context) error {
	definitions := make([]agent.Agent, len(rt.cfg.Agents))
	for i := range rt.cfg.Agents {
		definitions[i] = rt.checked(&rt.cfg.Agents[i])
	}

	if err := (&agent.File{Agents: definitions, Limits: rt.cfg.Limits}).Validate(); err != nil {
		return err
	}

	parts := rt.load(ctx)
	for i := range rt.cfg.Agents {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}

		h, err := rt.hostOne(ctx, &rt.cfg.Agents[i], &parts[i])
		if err != nil {
			return err
		}

		rt.agents = append(rt.agents, h)
		rt.byID[h.id] = h
	}

	if reasons := rt.Unavailable(); !rt.cfg.AllowUnavailable && len(reasons) > 0 && len(reasons) == len(rt.agents) {
		all := make([]error, len(rt.agents))
		for i, h := range rt.agents {
			all[i] = fmt.Errorf("%s: %w", h.id, h.fault)
		}

		return fmt.Errorf("no agent is available: %w", errors.Join(all...))
	}

	for _, h := range rt.agents {
		for _, s := range h.servers {
			rt.connecting.Go(func() { rt.connect(h.id, s) })
		}
	}

	return nil
}

// The time between attempts to connect a failed server, which doubles with each of them.
const (
	minReconnect = time.Second
	maxReconnect = time.Minute
)

// connect connects a server before the first run needs it, and again while it has failed, also
// later: the detail of the agent has its present state. A server that is pending was connected, or
// takes long to start; the next run connects it.
func (rt *Runtime) connect(agentID string, s tool.Server) {
	defer func() {
		if value := recover(); value != nil {
			rt.cfg.Logger.Error("connect MCP server", "agent", agentID, "mcp_server", s.Name(), "panic", value, "stack", string(debug.Stack()))
		}
	}()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for pause := minReconnect; ; pause = min(2*pause, maxReconnect) {
		select {
		case <-timer.C:
		case <-rt.life.Done():
			return
		}

		if pause == minReconnect || s.Status() == tool.Failed {
			if list, err := s.Tools(rt.life); err == nil {
				rt.cfg.Logger.Info("MCP server is connected", "agent", agentID, "mcp_server", s.Name(), "tools", len(list.Tools))
				pause = minReconnect
			}
		}

		timer.Reset(pause)
	}
}

// checked returns the definition of an agent as it is checked: the provider of an own model may be
// empty or have any protocol.
func (rt *Runtime) checked(def *agent.Agent) agent.Agent {
	checked := *def
	if rt.cfg.NewModel != nil {
		checked.Provider.Protocol = agent.ProtocolDemo
	}

	return checked
}

// loaded are the loaded parts of an agent.
type loaded struct {
	tools       []tool.Tool // one for each custom tool
	toolErrors  []error
	skillDirs   []string // of the skill archives
	skillsError error
}

// load loads the custom tools and the skill archives of all agents in parallel.
func (rt *Runtime) load(ctx context.Context) []loaded {
	toolCtx, cancelTools := context.WithTimeoutCause(ctx, toolTimeout, fmt.Errorf("it took longer than %v", toolTimeout))
	defer cancelTools()
	archiveCtx, cancelArchives := context.WithTimeoutCause(ctx, archiveTimeout, fmt.Errorf("it took longer than %v", archiveTimeout))
	defer cancelArchives()
	all := make([]loaded, len(rt.cfg.Agents))
	var loading sync.WaitGroup
	defer loading.Wait()
	for i := range rt.cfg.Agents {
		def, l := &rt.cfg.Agents[i], &all[i]
		l.tools = make([]tool.Tool, len(def.CustomTools))
		l.toolErrors = make([]error, len(def.CustomTools))
		for j := range def.CustomTools {
			loading.Go(func() { l.tools[j], l.toolErrors[j] = rt.loadTool(toolCtx, def.CustomTools[j]) })
		}

		loading.Go(func() { l.skillDirs, l.skillsError = rt.loadArchives(archiveCtx, def.SkillArchives) })
	}

	return all
}

func (rt *Runtime) loadTool(ctx context.Context, def agent.CustomTool) (tool.Tool, error) {
	if rt.cfg.LoadTool == nil {
		return nil, errors.New("the runtime is configured without LoadTool")
	}

	t, err := rt.cfg.LoadTool(ctx, def)
	return t, withCause(ctx, err)
}

// loadArchives returns the directories of the skill archives of one agent.
func (rt *Runtime) loadArchives(ctx context.Context, archives []agent.SkillArchive) ([]string, error) {
	if len(archives) > 0 && rt.cfg.LoadSkill == nil {
		return nil, errors.New("load skillArchives: the runtime is configured without LoadSkill")
	}

	var dirs []string
	for i, def := range archives {
		dir, err := rt.cfg.LoadSkill(ctx, def)
		if err != nil {
			return nil, fmt.Errorf("load skillArchives[%d]: %w", i, withCause(ctx, err))
		}

		dirs = append(dirs, dir)
	}

	return dirs, nil
}

// withCause adds the cause of ctx to an error that it has caused.
func withCause(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}

	return err
}

func (rt *Runtime) hostOne(ctx context.Context, def *agent.Agent, parts *loaded) (*hosted, error) {
	skills, err := rt.skills.Scan(ctx, def.SkillSources(), def.ExtraUserSkillDirs, parts.skillDirs)
	if err != nil {
		return nil, err
	}

	h := &hosted{id: def.ID, detail: def.Detail("ready", summaries(skills))}
	h.detail.Sandbox = wire.SandboxStatus{Mode: def.Sandbox.In("").Mode, Reason: "the agent is unavailable"}
	if h.fault = parts.skillsError; h.fault == nil {
		h.engine, h.fault = rt.resolve(h, def, skills, parts)
	}

	if h.fault != nil {
		h.engine, h.detail.Status, h.servers = nil, "unavailable", nil
		rt.cfg.Logger.Error("agent is unavailable", "agent", def.ID, "err", h.fault)
	}

	tools := 0
	if h.engine != nil {
		tools = len(h.engine.Tools())
	}

	h.summary = def.Summary(h.detail.Status, tools)
	h.init = wire.Init{
		AgentID: def.ID, Model: def.Model, CWD: rt.cfg.CWD, Skills: skillNames(skills),
		PermissionMode: string(permissionMode(def)),
	}
	return h, nil
}

func summaries(skills []skill.Skill) []wire.SkillSummary {
	var list []wire.SkillSummary
	for _, s := range skills {
		list = append(list, wire.SkillSummary{Name: s.Name, Description: s.Description, Source: s.Source, Location: s.Location})
	}

	return list
}

func skillNames(skills []skill.Skill) []string {
	names := []string{}
	for _, s := range skills {
		names = append(names, s.Name)
	}

	return names
}

func permissionMode(def *agent.Agent) permission.Mode {
	if def.PermissionMode == "" {
		return permission.ModeDefault
	}

	return permission.Mode(def.PermissionMode)
}
