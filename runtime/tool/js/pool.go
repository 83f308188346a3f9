package js

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// acquire returns a process for one use, preferably one with an engine for the program. If all
// processes are in use and no more may be started, it waits in a queue. The caller returns the
// process with release.
func (h *Host) acquire(ctx context.Context, prog *program) (*process, error) {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return nil, ErrClosed
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
		return nil, ErrClosed
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
