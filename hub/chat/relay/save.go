package relay

import (
	"context"
	"database/sql"
	"errors"
	"runtime"
	"time"

	"github.com/seed93082962/agenthost/hub/db"
	"github.com/seed93082962/agenthost/runtime/wire"
)

const (
	renewEvery  = leaseTime / 5
	writeWithin = 10 * time.Second
	retryFor    = time.Minute // an ended answer, while the database is unavailable
	batchRows   = 200         // of one transaction
	batchBytes  = 8 << 20     // of the answers in progress of one transaction
)

// ended is an answer that has ended, as it is stored.
type ended struct {
	run           Run
	end           Ending
	text, content string
	model         string
	usage         wire.Usage
	started       bool
	usedSession   string // of the runtime, or ""
	nextSession   string // of the runtime, which the next message continues, or ""

	began  time.Time
	memory *account
	saved  bool // the session still exists
	told   bool // done has the result; guarded by Relay.mu
	done   chan error
}

// generated reports whether the answer has anything that a notice can label.
func (e *ended) generated() bool { return e.text != "" || len(e.content) > len("[]") }

// finish stores an answer that has ended. If the database is unavailable, it returns after
// writeWithin, and the relay continues to try.
func (r *Relay) finish(e *ended) error {
	r.add(e)
	late := time.NewTimer(writeWithin)
	defer late.Stop()
	select {
	case err := <-e.done:
		return err
	case <-late.C:
		return db.ErrUnavailable
	}
}

// add adds an answer that has ended to the next transaction.
func (r *Relay) add(e *ended) {
	r.mu.Lock()
	r.ended = append(r.ended, e)
	delete(r.watched, e.run.ID) // its last text is in e
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default: // it will be seen with the former one
	}
}

// save stores answers until ctx ends: those in progress when they have grown, at most once in
// SaveEvery, those that have ended as soon as the previous transaction is complete, so that many
// answers share one. It renews the leases of exactly these answers.
func (r *Relay) save(ctx context.Context) {
	tick := time.NewTicker(r.cfg.SaveEvery)
	defer tick.Stop()
	var renewed time.Time
	for {
		select {
		case <-r.wake:
			r.saveEnded(ctx)
		case <-tick.C:
			r.saveEnded(ctx) // those that could not be written before
			now := time.Now()
			renew := now.Sub(renewed) >= min(renewEvery, 3*r.cfg.SaveEvery)
			if renew {
				renewed = now
			}
			r.saveProgress(ctx, now, renew)
		case <-ctx.Done():
			r.saveEnded(context.WithoutCancel(ctx))
			return
		}
	}
}

// partial is an answer whose lease is renewed, and its text if it is stored.
type partial struct {
	run           Run
	answer        *Answer // nil for one that has ended and could not be stored yet
	text, content string
	changed       bool
}

// saveProgress checks and stores the answers in progress, and renews their leases.
func (r *Relay) saveProgress(ctx context.Context, now time.Time, renew bool) {
	r.mu.Lock()
	all := make([]partial, 0, len(r.watched)+len(r.ended))
	for _, a := range r.watched {
		all = append(all, partial{run: a.run, answer: a})
	}
	for _, e := range r.ended {
		all = append(all, partial{run: e.run})
	}
	r.mu.Unlock()
	var batch []partial
	size := 0
	for _, p := range all {
		if p.answer != nil {
			p.answer.check(now)
			p.text, p.content, p.changed = p.answer.snapshot()
		}
		if !renew && !p.changed {
			continue
		}
		batch = append(batch, p)
		if size += len(p.text) + len(p.content); len(batch) == batchRows || size >= batchBytes {
			r.savePartials(ctx, batch)
			batch, size = nil, 0
		}
	}
	if len(batch) > 0 {
		r.savePartials(ctx, batch)
	}
}

// savePartials renews the leases of answers, and stores the text of those that this hub still has.
// It cancels the others, and answers on request of another hub.
func (r *Relay) savePartials(ctx context.Context, batch []partial) {
	ctx, cancel := context.WithTimeout(ctx, writeWithin)
	defer cancel()
	runIDs := make([]string, len(batch))
	for i, p := range batch {
		runIDs[i] = p.run.ID
	}
	var owned map[string]bool // the values are the requests to cancel
	err := r.store.DB.Tx(ctx, func(tx *sql.Tx) (err error) {
		if owned, err = renewRuns(ctx, tx, r.id, runIDs, r.store.Now()); err != nil {
			return err
		}
		for _, p := range batch {
			if _, ok := owned[p.run.ID]; !ok || !p.changed {
				continue
			}
			if err := savePartial(ctx, tx, p); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		r.store.Logger.Warn("storing partial answers failed", "err", err)
		for _, p := range batch {
			if p.changed {
				p.answer.unsaved()
			}
		}
		return
	}
	for _, id := range runIDs {
		switch cancel, ok := owned[id]; {
		case !ok:
			r.cancel(id, errLost) // without effect if it has ended in the meantime
		case cancel:
			r.cancel(id, errCancelled)
		}
	}
}

// saveEnded stores the answers that have ended. If a batch fails, each is stored in its own
// transaction, so that one cannot prevent the others.
func (r *Relay) saveEnded(ctx context.Context) {
	r.mu.Lock()
	all := r.ended
	r.ended, r.storing = nil, all
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		r.storing = nil
		r.mu.Unlock()
	}()
	for len(all) > 0 {
		batch := all[:min(len(all), batchRows)]
		all = all[len(batch):]
		err := r.saveBatch(ctx, batch)
		if err != nil && len(batch) > 1 && !errors.Is(err, db.ErrUnavailable) { // also errNotOwned of one
			for i := range batch {
				r.saved(batch[i:i+1], r.saveBatch(ctx, batch[i:i+1]))
			}
			continue
		}
		r.saved(batch, err)
	}
}

func (r *Relay) saveBatch(ctx context.Context, batch []*ended) error {
	ctx, cancel := context.WithTimeout(ctx, writeWithin)
	defer cancel()
	return r.store.DB.Tx(ctx, func(tx *sql.Tx) (err error) {
		for _, e := range batch {
			if e.saved, err = saveAnswer(ctx, tx, e, r.id, r.store.Now()); err != nil {
				return err
			}
			runtime.Gosched() // if many clients disconnect at once, their runs are cancelled before this is stored
		}
		return nil
	})
}

// saved reports the result of a batch. The next tick tries again if the database was unavailable.
// An answer that could not be stored stays partial, and its lease ends by itself.
func (r *Relay) saved(batch []*ended, err error) {
	switch {
	case len(batch) == 1 && errors.Is(err, errStored):
		batch[0].saved, err = true, nil
	case len(batch) == 1 && errors.Is(err, errNotOwned):
		batch[0].saved, err = false, nil
	case err != nil:
		r.store.Logger.Warn("storing answers failed", "err", err)
	}
	for _, e := range batch {
		if err != nil && errors.Is(err, db.ErrUnavailable) && time.Since(e.began) < retryFor {
			r.mu.Lock()
			r.ended = append(r.ended, e)
			r.mu.Unlock()
			continue
		}
		e.memory.release()
		r.mu.Lock()
		e.told = true // before the message may be sent again
		r.mu.Unlock()
		e.done <- err
	}
}
