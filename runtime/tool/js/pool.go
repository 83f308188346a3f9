package js

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/seed93082962/agenthost/internal/jsonlimit"
	"github.com/seed93082962/agenthost/runtime/tool/js/internal/frame"
)

// acquire returns a process for one use, preferably one with an engine for the program. If all
// processes are in use and no more may be started, it waits in a queue. The caller returns the
// process with release.
func (h *Host) acquire(ctx context.Context, prog *program) (*process, error) {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return nil, errClosed
	}

	if len(h.idle) > 0 {
		i := slices.IndexFunc(h.idle, func(p *process) bool { return slices.Contains(p.ready, prog) })
		p := h.takeIdle(max(i, 0))
		h.mu.Unlock()
		return p, nil
	}

	if len(h.all)+h.starting < h.cfg.Workers {
		h.starting++
		h.group.Add(1) // Close waits for the start
		h.mu.Unlock()
		defer h.group.Done()
		return h.start()
	}

	turn := make(chan *process, 1)
	h.waiters = append(h.waiters, turn)
	h.mu.Unlock()

	select {
	case p := <-turn:
		if p == nil {
			return h.acquire(ctx, prog) // the host is closed, or a process can be started
		}

		return p, nil
	case <-ctx.Done():
	}

	h.mu.Lock()
	i := slices.Index(h.waiters, turn)
	if i >= 0 {
		h.waiters = slices.Delete(h.waiters, i, i+1)
	}

	h.mu.Unlock()
	if i < 0 {
		if p := <-turn; p != nil {
			h.release(p)
		} else {
			h.wakeOne()
		}
	}

	return nil, fmt.Errorf("wait for a worker: %w", context.Cause(ctx))
}

// release returns a process. It ignores a process that has ended.
func (h *Host) release(p *process) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, alive := h.all[p]; !alive || h.closed {
		return
	}

	if len(h.waiters) > 0 {
		h.waiters[0] <- p
		h.waiters = h.waiters[1:]
		return
	}

	p.unused.Reset(idleTime)
	h.idle = append(h.idle, p)
	h.warmIdle()
}

// takeIdle removes an idle process from the list. The caller has the lock.
func (h *Host) takeIdle(i int) *process {
	p := h.idle[i]
	h.idle = slices.Delete(h.idle, i, i+1)
	p.unused.Stop()
	return p
}

// wakeOne wakes the first waiting caller, which tries again.
func (h *Host) wakeOne() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.waiters) > 0 {
		close(h.waiters[0])
		h.waiters = h.waiters[1:]
	}
}

// start starts a process. The caller has incremented starting.
func (h *Host) start() (*process, error) {
	p, err := h.newProcess()
	h.mu.Lock()
	h.starting--
	if err != nil {
		h.mu.Unlock()
		h.wakeOne()
		return nil, err
	}

	h.all[p] = struct{}{}
	p.unused = time.AfterFunc(idleTime, func() { h.retire(p) })
	p.unused.Stop()
	closed := h.closed
	h.group.Go(p.read)
	h.mu.Unlock()
	if closed {
		p.kill()
		return nil, errClosed
	}

	return p, nil
}

// workerProved records the first response of a worker.
func (h *Host) workerProved() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failed = 0
}

// gone removes a process that has ended, and starts another one if fewer are left than are
// retained.
func (h *Host) gone(p *process) {
	h.mu.Lock()
	delete(h.all, p)
	p.unused.Stop()
	h.idle = slices.DeleteFunc(h.idle, func(other *process) bool { return other == p })
	if h.failed++; p.proved.Load() {
		h.failed = 0
	}

	again := h.mayStart()
	if again {
		h.starting++
	}

	h.mu.Unlock()
	if !again {
		h.wakeOne()
		return
	}

	h.group.Go(h.startSpare)
}

// mayStart reports whether a spare process may be started: there are fewer processes than are
// retained, and the command is not broken. Calls start processes in any case. The caller has the
// lock.
func (h *Host) mayStart() bool {
	return !h.closed && h.failed <= maxFailed && len(h.order) > 0 && len(h.all)+h.starting < min(spare, h.cfg.Workers)
}

// startSpares starts the processes that are kept in addition to the one that loaded a tool. The
// caller has the lock.
func (h *Host) startSpares() {
	for h.mayStart() {
		h.starting++
		h.group.Go(h.startSpare)
	}
}

func (h *Host) startSpare() {
	p, err := h.start()
	if errors.Is(err, errClosed) {
		return
	}

	if err != nil {
		h.cfg.Logger.Warn("worker of custom tools did not start", "err", err)
		return
	}

	h.release(p)
}

// retire ends a process that was idle for a while, if there are enough.
func (h *Host) retire(p *process) {
	h.mu.Lock()
	i := slices.Index(h.idle, p)
	if i < 0 || len(h.all) <= spare || h.closed {
		h.mu.Unlock()
		return
	}

	h.idle = slices.Delete(h.idle, i, i+1)
	h.mu.Unlock()
	p.kill()
}

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
	head := frame.Warm{Call: j.id, Program: prog.id}
	if len(p.ready) >= maxWarm {
		head.Evict = p.ready[0].id
		p.ready = p.ready[1:]
	}

	answer, err := p.do(limited, j, func() error {
		if err := p.learn(prog); err != nil {
			return err
		}

		return p.out.Write(frame.KindWarm, head, "")
	})
	var warmed frame.Warmed
	if err == nil && (answer.kind != frame.KindWarmed || jsonlimit.Unmarshal(answer.head, &warmed) != nil || warmed.Call != j.id) {
		p.kill()
		err = fmt.Errorf("%w: not the answer to a warm-up", frame.ErrMalformed)
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
