package js

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// acquire gives a process for one use, release takes it back. Where there are as many as there may be, and all are in use,
// it waits its turn.
func (h *Host) acquire(ctx context.Context) (*process, error) {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return nil, ErrClosed
	}
	if n := len(h.idle); n > 0 {
		p := h.idle[0] // the one that had the longest time to get a sandbox ready
		h.idle = slices.Delete(h.idle, 0, 1)
		p.unused.Stop()
		h.mu.Unlock()
		return p, nil
	}
	if len(h.all)+h.starting < h.cfg.Workers {
		h.starting++
		h.group.Add(1) // Close waits for what comes of it
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
			return h.acquire(ctx) // closed, or one that may be started
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

// release takes a process back, or forgets about one that has ended.
func (h *Host) release(p *process) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, alive := h.all[p]; !alive || h.closed {
		return
	}
	if p.proved.Load() {
		h.failed = 0
	}
	if len(h.waiters) > 0 {
		h.waiters[0] <- p
		h.waiters = h.waiters[1:]
		return
	}
	p.unused.Reset(idleTime)
	h.idle = append(h.idle, p)
}

// wakeOne lets the first that waits try again.
func (h *Host) wakeOne() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.waiters) > 0 {
		close(h.waiters[0])
		h.waiters = h.waiters[1:]
	}
}

// start starts a process, in a place that was counted in starting.
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
	known := slices.Clone(h.order[max(0, len(h.order)-maxWarm):]) // the others when they are called
	h.group.Go(p.read)
	h.mu.Unlock()
	if closed {
		p.kill()
		return nil, ErrClosed
	}
	for _, prog := range known {
		_ = p.learn(prog) // an error is the end of the process, which its reader sees
	}
	return p, nil
}

// gone forgets about a process that has ended, and starts another one where that leaves too few.
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

// mayStart says that there are fewer processes than are kept, and that it is not the command's fault. Calls start what they
// need all the same. The caller has the lock.
func (h *Host) mayStart() bool {
	return !h.closed && h.failed <= maxFailed && len(h.order) > 0 && len(h.all)+h.starting < min(spare, h.cfg.Workers)
}

// startSpares starts the processes that are kept beside the one that loaded a tool.
func (h *Host) startSpares() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for h.mayStart() {
		h.starting++
		h.group.Go(h.startSpare)
	}
}

func (h *Host) startSpare() {
	p, err := h.start()
	if err != nil {
		h.cfg.Logger.Warn("worker of custom tools did not start", "error", err)
		return
	}
	h.release(p)
}

// retire ends a process that nobody used for a while, if there are enough.
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
