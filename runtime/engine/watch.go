package engine

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// errSilent is the cause with which a call of a silent model is cancelled.
var errSilent = errors.New("the model was silent for too long")

// watchdog cancels a call of the model when nothing has come from it for a while. It costs a
// timer, which is moved only when it fires: a stream that flows pays one reading of the clock.
type watchdog struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	limit  time.Duration

	busy atomic.Bool // the reader of the run has a part, and may take its time

	mu    sync.Mutex // guards all below
	timer *time.Timer
	last  time.Time // when something came
}

func watch(ctx context.Context, limit time.Duration) *watchdog {
	w := &watchdog{limit: limit, last: time.Now()}
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(limit, w.look)
	return w
}

// alive says that something came.
func (w *watchdog) alive() {
	now := time.Now()
	w.mu.Lock()
	w.last = now
	w.mu.Unlock()
}

// away says that a part is handed on: a reader that is slow to take it is not the model's fault.
func (w *watchdog) away() { w.busy.Store(true) }

// back says that it was taken. A part with more behind it was only put aside, and takes no time.
func (w *watchdog) back(more bool) {
	w.busy.Store(false)
	if !more {
		w.alive()
	}
}

func (w *watchdog) look() {
	busy := w.busy.Load()
	w.mu.Lock()
	defer w.mu.Unlock()
	if busy {
		w.last = time.Now()
	}
	if left := w.limit - time.Since(w.last); left > 0 && w.ctx.Err() == nil {
		w.timer.Reset(left)
		return
	}
	w.cancel(errSilent)
}

// barked tells whether the call was cancelled for silence.
func (w *watchdog) barked() bool { return errors.Is(context.Cause(w.ctx), errSilent) }

// stop ends the watch.
func (w *watchdog) stop() {
	w.cancel(nil)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer.Stop()
}
