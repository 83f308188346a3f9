package run

import (
	"context"
	"slices"
	"time"

	"github.com/seed93082962/agenthost/runtime/wire"
)

// Run is the entry of one run in the registry, from the claim of its id to its end.
type Run struct {
	registry *Registry
	id       ID
	ctx      context.Context
	cancel   context.CancelCauseFunc

	// Guarded by registry.mu.
	state   wire.State
	reason  wire.Reason
	started bool
}

// ID returns the id under which the run was claimed.
func (r *Run) ID() ID { return r.id }

// Context is done when the run was cancelled, with the sentinel of the reason as its cause, and
// after Finish.
func (r *Run) Context() context.Context { return r.ctx }

// Start starts the run. It is active until Finish.
func (r *Run) Start() error {
	g := r.registry
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.active >= g.cfg.MaxActive:
		return ErrTooMany
	case g.draining:
		return ErrDraining
	}
	r.started = true
	g.active++
	return nil
}

// Release removes a run that was claimed but not started. After Start it does nothing.
func (r *Run) Release() {
	g := r.registry
	g.mu.Lock()
	defer g.mu.Unlock()
	if !r.started && g.claimed[r.id] == r {
		delete(g.claimed, r.id)
		r.cancel(nil)
	}
}

// Cancel cancels the run with that reason. The first reason wins. After Finish it does nothing.
func (r *Run) Cancel(reason wire.Reason) {
	g := r.registry
	g.mu.Lock()
	defer g.mu.Unlock()
	r.cancelLocked(reason)
}

func (r *Run) cancelLocked(reason wire.Reason) {
	if r.state != wire.StateRunning {
		return
	}
	r.state, r.reason = wire.StateCancelling, reason
	r.registry.extendSeries()
	r.cancel(cause(reason))
}

// Reason returns the reason of the cancel, or "" if the run was not cancelled.
func (r *Run) Reason() wire.Reason {
	g := r.registry
	g.mu.Lock()
	defer g.mu.Unlock()
	return r.reason
}

// Finish ends the run. All its goroutines must have ended. It returns the final state: cancelled if
// the run was cancelled before, otherwise state. Further calls return the same state.
func (r *Run) Finish(state wire.State) wire.State {
	g := r.registry
	g.mu.Lock()
	defer g.mu.Unlock()
	if r.state.Terminal() {
		return r.state
	}
	if r.state == wire.StateCancelling {
		state = wire.StateCancelled
	}
	r.state = state
	r.cancel(nil)
	delete(g.claimed, r.id)
	g.sweep()
	g.ended[r.id] = outcome{code(states, state), code(reasons, r.reason)}
	g.queue = append(g.queue, expiry{r.id, time.Since(g.epoch) + g.cfg.TerminalTTL})
	if r.started {
		g.active--
		if g.active == 0 && g.idle != nil {
			close(g.idle)
		}
	}
	return state
}

// The numbers of states and reasons in an [outcome] are indexes of these lists.
var (
	states  = []wire.State{wire.StateCompleted, wire.StateFailed, wire.StateCancelled}
	reasons = []wire.Reason{"", wire.ReasonClientRequest, wire.ReasonDisconnect, wire.ReasonShutdown}
)

func code[T comparable](of []T, value T) uint8 { return uint8(slices.Index(of, value) & 0xff) }
