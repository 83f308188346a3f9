package registry

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/seed93082962/agenthost/runtime/run"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// ownClaim is what the owner of a run knows of its claim on the bus. Its lock is taken before that
// of the registry, except by claim.
type ownClaim struct {
	ending chan struct{} // not nil while Run.decide stores the end, and closed after that; guarded by registry.mu

	mu        sync.Mutex // guards the fields below
	revision  uint64
	cancelled wire.Reason // the reason in the entry, which is the first one
	elsewhere bool        // another replica has stored it
	last      end         // from the begin of finishEntry
	returned  bool        // finishEntry has returned last
	closed    bool        // nothing of the run is active
	over      bool        // nothing more is stored
}

// createEntry stores the entry of a run that was claimed. It fails only with ErrConflict: if the
// bus is unavailable, the run continues, and renewEntry stores it.
func (r *Run) createEntry() error {
	defer r.entry.mu.Unlock() // locked by claim
	p := r.registry.replica
	var err error
	r.entry.revision, err = p.put(r.id, run.Claim{Owner: p.owner}, lease)
	if errors.Is(err, run.ErrChanged) {
		r.entry.over = true
		return ErrConflict
	}

	context.AfterFunc(r.ctx, func() {
		if r.reason() != "" { // otherwise the run has ended
			_ = r.cancelEntry("")
		}
	})
	return nil
}

// renewEntry stores the entry again, and reports whether that was the last time. If another replica
// has cancelled the run, that takes effect. It does not wait for Finish, which may wait until the
// bus is available: the caller is the one that finds this.
func (r *Run) renewEntry() bool {
	if !r.entry.mu.TryLock() {
		return false // the next renewal repeats it
	}

	defer r.entry.mu.Unlock()
	_ = r.storeEntry() // the next renewal repeats it
	return r.entry.over
}

// readEntry reads a cancel by another replica.
func (r *Run) readEntry() {
	r.entry.mu.Lock()
	defer r.entry.mu.Unlock()
	if r.entry.over {
		return
	}

	if e, err := r.registry.replica.get(r.id); err == nil { // otherwise the next renewal repeats it
		r.takeEntry(e)
	}
}

// cancelEntry stores that this replica has cancelled the run, which had been cancelled for the
// reason former, if any. It returns the reason of the first cancel, or "" if this is the first one.
func (r *Run) cancelEntry(former wire.Reason) wire.Reason {
	r.entry.mu.Lock()
	defer r.entry.mu.Unlock()
	if r.entry.cancelled == "" {
		_ = r.storeEntry() // the next renewal repeats it
	}

	if former == "" && !r.entry.elsewhere {
		return ""
	}

	return cmp.Or(r.entry.cancelled, former)
}

// deleteEntry deletes the entry of a run that did not start. If that fails, it expires.
func (r *Run) deleteEntry() {
	r.entry.mu.Lock()
	defer r.entry.mu.Unlock()
	if r.entry.over {
		return
	}

	r.entry.over = true
	p := r.registry.replica
	remove := func() error {
		return p.call(func(ctx context.Context) error { return p.bus.Delete(ctx, r.id, r.entry.revision) })
	}
	if errors.Is(remove(), run.ErrChanged) { // it was cancelled
		if e, err := p.get(r.id); err == nil && e.Owner == p.owner {
			r.entry.revision = e.Revision
			_ = remove()
		}
	}
}

// finishEntry stores the end of the run. It returns the end, which is that of a cancel that another
// replica has stored before, and reports whether it was stored. An unavailable bus is awaited for
// at most patience. An entry that only a newer version can read is not replaced.
func (r *Run) finishEntry(last end, closed bool) (end, bool) {
	r.entry.mu.Lock()
	defer r.entry.mu.Unlock()
	if r.entry.returned {
		r.entry.over = false // of the former end
	}

	r.entry.last, r.entry.closed = last, closed
	if r.entry.cancelled != "" {
		r.entry.last = end{state: wire.StateCancelled, reason: r.entry.cancelled, at: last.at}
	}

	began, err := time.Now(), error(nil)
	for {
		err = r.storeEntry()
		if err == nil || errors.Is(err, run.ErrMalformed) || time.Since(began) >= patience || !r.registry.replica.await() {
			break
		}
	}

	r.entry.returned = true
	return r.entry.last, err == nil
}

// storeEntry stores the present state of the run, unless its end is stored already. The caller
// holds entry.mu.
func (r *Run) storeEntry() error {
	g := r.registry
	for range attempts {
		if r.entry.over {
			return nil
		}

		e, ttl := run.Claim{Owner: g.replica.owner, Revision: r.entry.revision}, lease
		reason := cmp.Or(r.entry.cancelled, r.reason())
		switch {
		case r.entry.last.state == wire.StateCancelled && !r.entry.closed:
			e.State, e.Reason = wire.StateCancelling, r.entry.last.reason
		case r.entry.last.state != "":
			e.State, e.Reason = r.entry.last.state, r.entry.last.reason
			if ttl = g.cfg.TerminalTTL - time.Since(r.entry.last.at); ttl <= 0 {
				r.entry.over = true
				return nil
			}
		case reason != "":
			e.State, e.Reason = wire.StateCancelling, reason
		}

		revision, err := g.replica.put(r.id, e, ttl)
		if err == nil {
			r.entry.revision = revision
			r.entry.cancelled = e.Reason
			r.entry.over = e.State != "" && e.State != wire.StateCancelling
			return nil
		}

		if !errors.Is(err, run.ErrChanged) {
			return err
		}

		found, err := g.replica.get(r.id)
		switch {
		case errors.Is(err, run.ErrMalformed) && found.Revision != 0:
			r.entry.revision = found.Revision
		case err != nil:
			return err
		default:
			r.takeEntry(found)
		}
	}

	return run.ErrUnavailable
}

// takeEntry applies an entry that was read: a cancel by another replica takes effect, unless Finish
// has returned. The caller holds entry.mu.
func (r *Run) takeEntry(found run.Claim) {
	p := r.registry.replica
	if found.Revision != 0 && found.Owner != p.owner {
		r.entry.over = true
		p.log.Warn("another replica has a run with the same id, which began while the bus was unavailable", "run_id", r.id.String())
		return
	}

	r.entry.revision = found.Revision // 0: the bus has lost the entry
	if found.State != wire.StateCancelling || r.entry.returned {
		return
	}

	r.entry.cancelled, r.entry.elsewhere = found.Reason, true
	r.cancel(found.Reason)
	if r.entry.last.state != "" {
		r.entry.last = end{state: wire.StateCancelled, reason: found.Reason, at: r.entry.last.at}
	}
}
