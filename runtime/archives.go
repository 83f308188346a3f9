package runtime

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/seed93082962/agenthost/runtime/agent"
)

// skillTimeout limits the time for loading the skill archives of all agents.
const skillTimeout = 30 * time.Second

// skillDirs are the directories of an agent's skill archives, or the error of loading them.
type skillDirs struct {
	dirs []string
	err  error
}

// loadSkills loads the skill archives of all agents in parallel.
func (rt *Runtime) loadSkills(ctx context.Context) []skillDirs {
	ctx, cancel := context.WithTimeoutCause(ctx, skillTimeout, fmt.Errorf("it took longer than %v", skillTimeout))
	defer cancel()
	all := make([]skillDirs, len(rt.cfg.Agents))
	var loading sync.WaitGroup
	for i := range rt.cfg.Agents {
		if archives := rt.cfg.Agents[i].SkillArchives; len(archives) > 0 {
			loading.Go(func() { all[i] = rt.loadArchives(ctx, archives) })
		}
	}
	loading.Wait()
	return all
}

// loadArchives loads the skill archives of one agent.
func (rt *Runtime) loadArchives(ctx context.Context, archives []agent.SkillArchive) (s skillDirs) {
	if rt.cfg.LoadSkill == nil {
		return skillDirs{err: errors.New("load skillArchives: the runtime is configured without LoadSkill")}
	}
	for i, def := range archives {
		dir, err := rt.cfg.LoadSkill(ctx, def)
		if err != nil {
			if ctx.Err() != nil {
				err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
			}
			return skillDirs{err: fmt.Errorf("load skillArchives[%d]: %w", i, err)}
		}
		s.dirs = append(s.dirs, dir)
	}
	return s
}
