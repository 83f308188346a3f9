package runtime

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/engine"
	"github.com/seed93082962/agenthost/runtime/permission"
	"github.com/seed93082962/agenthost/runtime/skill"
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
	detail  wire.AgentDetail
}

// host resolves the agents of the configuration.
func (rt *Runtime) host(ctx context.Context) error {
	if err := (&agent.File{Agents: rt.cfg.Agents, Limits: rt.cfg.Limits}).Validate(); err != nil {
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
	return nil
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
	h := &hosted{id: def.ID}
	status := wire.StatusReady
	confined := wire.Sandbox{Mode: def.Sandbox.In("").Mode, Reason: "the agent is unavailable"}
	if h.fault = parts.skillsError; h.fault == nil {
		h.engine, h.fault = rt.resolve(def, skills, parts, &confined)
	}
	if h.fault != nil {
		h.engine, status = nil, wire.StatusUnavailable
		rt.cfg.Logger.Error("agent is unavailable", "agent", def.ID, "err", h.fault)
	}
	tools := 0
	if h.engine != nil {
		tools = len(h.engine.Tools())
	}
	h.summary = def.Summary(status, tools)
	h.detail = def.Detail(status, summaries(skills))
	h.detail.Sandbox = confined
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
