package registry

import (
	"context"
	"errors"
	"time"

	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// Run is the entry of one run in the registry, from the claim of its id to its end.
type Run struct {
	registry *Registry
	id       ids.ID
	ctx      context.Context
	cancel   context.CancelCauseFunc
	unbind   func() bool // separates the run from the context of its caller
	started  bool
	end      end       // the zero value: it is not decided; changed only by the goroutine in Finish after that
	entry    *ownClaim // nil without a bus
}

// ID returns the id under which the run was claimed.
func (r *Run) ID() ids.ID { return r.id }

// Context is done when the run was cancelled, with the [wire.Reason] as its cause, and after
// Finish.
func (r *Run) Context() context.Context { return r.ctx }

// reason returns the reason of the cancel, or "" if the run was not cancelled.
func (r *Run) reason() wire.Reason {
	reason, _ := errors.AsType[wire.Reason](context.Cause(r.ctx))
	return reason
}

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
	if r.remove() && r.registry.replica != nil {
		r.deleteEntry()
	}
}

// remove removes a run that was not started from this replica, and reports whether it did.
func (r *Run) remove() bool {
	g := r.registry
	g.mu.Lock()
	defer g.mu.Unlock()
	if r.started || g.claimed[r.id] != r {
		return false
	}

	delete(g.claimed, r.id)
	r.separate()
	return true
}

// separate ends the context of the run, after which it cannot be cancelled.
func (r *Run) separate() {
	r.unbind()
	r.cancel(nil)
}

// Cancel cancels the run with that reason. The first reason wins. After the decision of Finish it
// does nothing.
func (r *Run) Cancel(reason wire.Reason) { r.cancel(reason) }

// awaitEnd waits until decide has stored the end, and reports whether decide was called. The caller
// holds mu of the registry, which is unlocked while it waits.
func (r *Run) awaitEnd() bool {
	if r.entry == nil || r.entry.ending == nil {
		return false
	}

	r.registry.mu.Unlock()
	<-r.entry.ending
	r.registry.mu.Lock()
	return true
}

// Finish ends a started run, all goroutines of which must have ended. It decides the final state,
// and the reason of a cancel: the run is cancelled if it was cancelled before, otherwise failed if
// err is not nil. Then it calls persist, if not nil, with the decision, after which nothing of the
// run is active. If persist fails, a completed run is failed. Finish returns the final state.
// Further calls return the same.
func (r *Run) Finish(err error, persist func(wire.State, wire.Reason) error) (wire.State, wire.Reason) {
	last, first := r.decide(err, persist == nil)
	if !first {
		return last.state, last.reason
	}

	defer r.leave()
	if persist == nil {
		return last.state, last.reason
	}

	failed := persist(last.state, last.reason) != nil && last.state == wire.StateCompleted
	if failed {
		last.state = wire.StateFailed
	}

	if failed || last.state == wire.StateCancelled {
		r.amend(last)
	}

	return last.state, last.reason
}

// decide determines the end of the run, after which it cannot be cancelled. It returns the end, and
// reports whether this is the first call. closed means that nothing of the run is active.
func (r *Run) decide(err error, closed bool) (end, bool) {
	g := r.registry
	g.mu.Lock()
	defer g.mu.Unlock()
	if r.awaitEnd(); r.end.state != "" {
		return r.end, false
	}

	r.separate()
	last := end{state: wire.StateCompleted, reason: r.reason(), at: time.Now()}
	switch {
	case last.reason != "":
		last.state = wire.StateCancelled
	case err != nil:
		last.state = wire.StateFailed
	}

	if g.replica != nil {
		r.entry.ending = make(chan struct{})
		defer close(r.entry.ending)
		last = r.storeEnd(last, closed)
	}

	r.end = last
	return last, true
}

// storeEnd stores the end on the bus and returns it as [Run.finishEntry] does. The caller holds mu
// of the registry, which is unlocked in the meantime.
func (r *Run) storeEnd(last end, closed bool) end {
	g := r.registry
	g.mu.Unlock()
	last, stored := r.finishEntry(last, closed)
	g.mu.Lock()
	if !stored && len(g.unstored) < maxUnstored {
		g.unstored[r.id] = r
	}

	return last
}

// amend stores the end of a run of which nothing is active.
func (r *Run) amend(last end) {
	g := r.registry
	g.mu.Lock()
	defer g.mu.Unlock()
	r.end = last
	if g.replica != nil {
		r.storeEnd(last, true)
	}
}

// leave makes an active run an ended one.
func (r *Run) leave() {
	g := r.registry
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.claimed, r.id)
	if r.end.at.Sub(g.since) >= g.cfg.TerminalTTL {
		g.recent, g.older = map[ids.ID]end{}, g.recent
		g.since = r.end.at
	}

	g.recent[r.id] = r.end
	g.active--
	if g.active == 0 && g.idle != nil {
		close(g.idle)
	}
}
