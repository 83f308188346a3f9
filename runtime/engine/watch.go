package engine

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// errIdle is the cause with which the call of an idle model is cancelled.
var errIdle = errors.New("the model sent nothing for too long")

// watchdog cancels a call of the model if no data arrives within the limit. Its timer is reset only
// when it fires, so that each part costs only one clock read.
type watchdog struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	limit  time.Duration

	paused atomic.Bool // the run is processing a part

	mu    sync.Mutex // guards the fields below
	timer *time.Timer
	last  time.Time // of the last arrival
}

func startWatchdog(ctx context.Context, limit time.Duration) *watchdog {
	w := &watchdog{limit: limit, last: time.Now()}
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(limit, w.check)
	return w
}

// alive records an arrival.
func (w *watchdog) alive() {
	now := time.Now()
	w.mu.Lock()
	w.last = now
	w.mu.Unlock()
}

// pause stops the clock while the run processes a part: a slow client does not count as an idle
// model.
func (w *watchdog) pause() { w.paused.Store(true) }

// resume restarts the clock. If more parts follow, the last one was only buffered, and resume does
// not record an arrival.
func (w *watchdog) resume(more bool) {
	w.paused.Store(false)
	if !more {
		w.alive()
	}
}

func (w *watchdog) check() {
	paused := w.paused.Load()
	w.mu.Lock()
	defer w.mu.Unlock()
	if paused {
		w.last = time.Now()
	}
	if left := w.limit - time.Since(w.last); left > 0 && w.ctx.Err() == nil {
		w.timer.Reset(left)
		return
	}
	w.cancel(errIdle)
}

// expired reports whether the call was cancelled because the model was idle.
func (w *watchdog) expired() bool { return errors.Is(context.Cause(w.ctx), errIdle) }

func (w *watchdog) stop() {
	w.cancel(nil)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer.Stop()
}
