package engine

import (
	"context"
	"errors"
	"sync"
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

func (w *watchdog) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
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
