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

// loadTimeout limits the time for loading the custom tools of all agents.
const loadTimeout = 10 * time.Second

// hosted is an agent of the runtime.
type hosted struct {
	id      string
	engine  *engine.Engine // nil: the agent is unavailable
	fault   error          // the reason
	init    wire.Init      // of its runs, without the fields that differ between runs
	summary wire.AgentSummary
	detail  wire.AgentDetail
}

// loaded is a custom tool, or the error of loading it.
type loaded struct {
	tool tool.Tool
	err  error
}

// host resolves the agents of the configuration.
func (rt *Runtime) host(ctx context.Context) error {
	if err := (&agent.File{Agents: rt.cfg.Agents, Limits: rt.cfg.Limits}).Validate(); err != nil {
		return err
	}
	custom, archives := rt.loadTools(ctx), rt.loadSkills(ctx)
	for i := range rt.cfg.Agents {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		h, err := rt.hostOne(ctx, &rt.cfg.Agents[i], custom[i], archives[i])
		if err != nil {
			return err
		}
		rt.agents = append(rt.agents, h)
		rt.byID[h.id] = h
	}
	return nil
}

// loadTools loads the custom tools of all agents in parallel.
func (rt *Runtime) loadTools(ctx context.Context) [][]loaded {
	ctx, cancel := context.WithTimeoutCause(ctx, loadTimeout, fmt.Errorf("it took longer than %v", loadTimeout))
	defer cancel()
	all := make([][]loaded, len(rt.cfg.Agents))
	var loading sync.WaitGroup
	for i := range rt.cfg.Agents {
		defs := rt.cfg.Agents[i].CustomTools
		all[i] = make([]loaded, len(defs))
		for j := range defs {
			if rt.cfg.LoadTool == nil {
				all[i][j].err = errors.New("the runtime is configured without LoadTool")
				continue
			}
			loading.Go(func() {
				l := &all[i][j]
				if l.tool, l.err = rt.cfg.LoadTool(ctx, defs[j]); l.err != nil && ctx.Err() != nil {
					l.err = fmt.Errorf("%w: %w", context.Cause(ctx), l.err)
				}
			})
		}
	}
	loading.Wait()
	return all
}

func (rt *Runtime) hostOne(ctx context.Context, def *agent.Agent, custom []loaded, archives skillDirs) (*hosted, error) {
	skills, err := rt.skills.Scan(ctx, def.SkillSources(), def.ExtraUserSkillDirs, archives.dirs)
	if err != nil {
		return nil, err
	}
	h := &hosted{id: def.ID}
	status := wire.StatusReady
	confined := wire.Sandbox{Mode: def.Sandbox.In("").Mode, Reason: "the agent is unavailable"}
	if h.fault = archives.err; h.fault == nil {
		h.engine, h.fault = rt.resolve(def, skills, custom, &confined)
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
