package js

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"
)

// maxWarm limits the engines of a worker that wait for a call. Each has 0.3 MB, and the objects of
// the tool's top level, at most a quarter of the script memory.
const maxWarm = 8

// warmIdle loads files in advance in the processes that are idle. The caller has the lock.
func (h *Host) warmIdle() {
	for i := 0; i < len(h.idle) && !h.closed; {
		prog := h.nextWarm(h.idle[i])
		if prog == nil {
			i++
			continue
		}
		p := h.takeIdle(i)
		h.group.Go(func() {
			if err := h.warm(h.ctx, p, prog, h.limits.warm); err != nil {
				h.cfg.Logger.Debug("custom tool was not loaded in advance", "tool", prog.spec.Name, "err", err)
			}
			h.release(p)
		})
	}
}

// nextWarm returns the program that an idle process is warmed for: that of its last call, or, while
// there is room, the one that was loaded last. The caller has the lock.
func (h *Host) nextWarm(p *process) *program {
	wanted := func(prog *program) bool { return !prog.cold.Load() && !slices.Contains(p.ready, prog) }
	if p.last != nil && wanted(p.last) {
		return p.last
	}
	if len(p.ready) < maxWarm {
		for _, prog := range slices.Backward(h.order) {
			if wanted(prog) {
				return prog
			}
		}
	}
	return nil
}

// warm makes an engine for the next call of a program, in a process that the caller acquired. A
// process that does not finish in time is killed. A program that fails is no longer loaded in
// advance, so that it delays only its own calls.
func (h *Host) warm(ctx context.Context, p *process, prog *program, limit time.Duration) error {
	limited, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%s did not load within %v", prog.file, limit))
	defer cancel()
	j := &job{id: h.calls.Add(1), program: prog}
	j.log = logWriter{log: slog.New(slog.DiscardHandler), ctx: limited} // the log was written when the file was built
	head := warmHead{Call: j.id, Program: prog.id}
	if len(p.ready) >= maxWarm {
		head.Evict = p.ready[0].id
		p.ready = p.ready[1:]
	}
	answer, err := p.do(limited, j, func() error {
		if err := p.learn(prog); err != nil {
			return err
		}
		return p.out.write(frameWarm, head, "")
	})
	var warmed warmedHead
	if err == nil && (answer.kind != frameWarmed || json.Unmarshal(answer.head, &warmed) != nil || warmed.Call != j.id) {
		p.kill()
		err = fmt.Errorf("%w: not the answer to a warm-up", errFrame)
	}
	switch {
	case err == nil && warmed.Error == "":
		p.ready = append(p.ready, prog)
		return context.Cause(ctx)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, errNotSent):
		return err
	case warmed.Error != "":
		err = errors.New(warmed.Error)
	case limited.Err() != nil:
		err = context.Cause(limited)
	}
	if !prog.cold.Swap(true) {
		h.cfg.Logger.Warn("custom tool is no longer loaded in advance", "tool", prog.spec.Name, "err", err)
	}
	return err
}
