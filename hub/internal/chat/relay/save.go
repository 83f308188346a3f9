package relay

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"runtime"
	"slices"
	"time"

	"github.com/seed93082962/agenthost/hub/internal/usage"
	"github.com/seed93082962/agenthost/internal/db"
)

const (
	writeWithin = 10 * time.Second
	batchRows   = 200     // of one transaction
	batchBytes  = 8 << 20 // of the answers in progress of one transaction
	maxFollowed = 8 << 20 // bytes that are stored at once for the readers at other hubs
)

// storeEnded stores the answers that have ended soon.
func (r *Relay) storeEnded() {
	select {
	case r.wake <- struct{}{}:
	default: // they will be seen with the former ones
	}
}

// save stores answers until ctx ends: those in progress when they have grown, at most once in
// SaveEvery, those that have ended as soon as the previous transaction is complete, so that many
// answers share one.
func (r *Relay) save(ctx context.Context) {
	tick := time.Tick(r.cfg.SaveEvery)
	for {
		select {
		case <-r.wake:
			runtime.Gosched() // answers that are about to end join
			r.saveEnded(ctx)
		case <-tick:
			r.saveEnded(ctx) // those that could not be written before
			r.saveProgress(ctx)
			r.expireJournals()
		case <-ctx.Done():
			r.saveEnded(context.WithoutCancel(ctx))
			return
		}
	}
}

// partial is an answer in progress whose content is to be stored.
type partial struct {
	*Answer

	content content
}

// saveProgress checks the answers in progress, and stores those that have grown. It cancels those
// whose runs this hub no longer has, and answers on request of another hub.
func (r *Relay) saveProgress(ctx context.Context) {
	now := time.Now()
	r.mu.Lock()
	all := slices.Collect(maps.Values(r.answers))
	r.mu.Unlock()
	var open []*Answer
	for _, a := range all {
		if a.progress(now) {
			open = append(open, a)
		}
	}

	if len(open) == 0 {
		return
	}

	within, cancel := context.WithTimeout(ctx, r.cfg.StoreTimeout)
	defer cancel()
	owned, err := runsOfHub(within, r.store.Read(), r.store.HubID)
	if err != nil {
		r.store.Logger.Warn("reading the answers of the hub failed", "err", err)
	}

	var due []partial
	followed := 0
	for _, a := range open { // in another order each time
		lease, ok := owned[a.run.ID]
		switch {
		case err != nil:
		case !ok:
			a.cancel(errLost) // without effect if it has ended in the meantime
		case lease.Cancel:
			a.cancel(errCancelled)
		}

		lease.followed = lease.followed && followed < maxFollowed
		content, ok := a.due(lease.followed)
		if ok {
			due = append(due, partial{a, content})
		}

		if ok && lease.followed {
			followed += content.size()
		}
	}

	var batch []partial
	size := 0
	for i, p := range due {
		batch = append(batch, p)
		if size += p.content.size(); len(batch) == batchRows || size >= batchBytes || i == len(due)-1 {
			r.savePartials(ctx, batch)
			batch, size = nil, 0
		}
	}
}

// savePartials stores the content of answers.
func (r *Relay) savePartials(ctx context.Context, batch []partial) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.StoreTimeout)
	defer cancel()
	err := r.store.DB.Tx(ctx, func(tx *sql.Tx) error {
		if err := r.store.Own(ctx, tx); err != nil {
			return err
		}

		for some := range db.Chunks(batch) {
			if err := savePartials(ctx, tx, some, r.store.HubID); err != nil {
				return err
			}
		}

		return nil
	})
	if err == nil {
		return
	}

	r.store.Logger.Warn("storing partial answers failed", "err", err)
	for _, p := range batch {
		p.unsaved()
	}
}

// saveEnded stores the answers that have ended. If a batch fails, each is stored in its own
// transaction, so that one cannot prevent the others.
func (r *Relay) saveEnded(ctx context.Context) {
	r.mu.Lock()
	all := r.ended
	r.ended = nil
	r.mu.Unlock()
	for len(all) > 0 {
		batch := all[:min(batchRows, len(all))]
		err := r.saveBatch(ctx, batch)
		if unavailable(err) { // the next tick tries again
			r.stored(all, err)
			return
		}

		if err == nil || len(batch) == 1 {
			r.stored(batch, err)
		} else {
			for one := range slices.Chunk(batch, 1) {
				r.stored(one, r.saveBatch(ctx, one))
			}
		}

		all = all[len(batch):]
	}
}

// unavailable reports whether the database could not be reached, or did not respond in time.
func unavailable(err error) bool {
	return errors.Is(err, db.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded)
}

// saveBatch stores answers that have ended in one transaction.
func (r *Relay) saveBatch(ctx context.Context, batch []*Answer) error {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.StoreTimeout)
	defer cancel()
	for _, a := range batch {
		a.recorded = a.counted()
	}

	err := r.store.DB.Tx(ctx, func(tx *sql.Tx) error {
		if err := r.store.Own(ctx, tx); err != nil {
			return err
		}

		for some := range db.Chunks(batch) {
			if err := saveAnswers(ctx, tx, some, r.store.HubID, r.store.Now()); err != nil {
				return err
			}
		}

		return r.recordUsage(ctx, tx, batch)
	})
	if len(batch) == 1 && errors.Is(err, errNotOwned) {
		return r.saveAlone(ctx, batch)
	}

	return err
}

// saveAlone stores an answer that another hub has ended, and counts its tokens, which were used.
func (r *Relay) saveAlone(ctx context.Context, one []*Answer) error {
	a := one[0]
	before := a.saved
	return r.store.DB.Tx(ctx, func(tx *sql.Tx) (err error) {
		a.saved = before
		if a.saved, err = saveLate(ctx, tx, a); err != nil {
			return err
		}

		return r.recordUsage(ctx, tx, one)
	})
}

// recordUsage counts the tokens of runs that runtimes have accepted, and stores the warnings of
// budgets.
func (r *Relay) recordUsage(ctx context.Context, tx *sql.Tx, batch []*Answer) error {
	if r.cfg.Usage == nil {
		return nil
	}

	var runs []usage.CountedRun
	var started []*Answer
	for _, a := range batch {
		if a.started {
			runs, started = append(runs, a.counted()), append(started, a)
		}
	}

	counted, warnings, err := r.cfg.Usage.Record(ctx, tx, runs...)
	if err != nil {
		return err
	}

	for i, a := range started {
		a.recorded, a.budgets = counted[i], warnings[a.run.ID]
		if a.saved && a.recorded.Unreported {
			if err := saveUsage(ctx, tx, a); err != nil {
				return err
			}
		}

		if a.saved && len(a.budgets) > 0 {
			if err := saveBudgets(ctx, tx, a); err != nil {
				return err
			}
		}
	}

	return nil
}

// counted returns the run of an answer that has ended, with its tokens, which are final if the
// runtime has reported its end. Otherwise, the message in progress counts a token for four bytes.
func (a *Answer) counted() usage.CountedRun {
	run := a.run.usage()
	run.Model, run.Tokens, run.Others = a.text.model, a.text.usage, a.text.others
	run.Unreported = a.started && a.text.end == nil
	if run.Unreported {
		run.Tokens.OutputTokens += int64(len(a.text.pending)) / 4
	}

	run.Tokens.Estimated = run.Tokens.Estimated || run.Unreported
	return run
}

// stored reports the result of a batch. The next tick tries again if the database was unavailable,
// until the hub ends: the answers hold their memory, and no further ones begin if they are too
// many. An answer that could not be stored stays partial.
func (r *Relay) stored(batch []*Answer, err error) {
	if err != nil {
		r.store.Logger.Warn("storing answers failed", "err", err)
	}

	for _, a := range batch {
		if unavailable(err) {
			r.mu.Lock()
			r.ended = append(r.ended, a)
			r.mu.Unlock()
			continue
		}

		a.saved, a.err = a.saved && err == nil, err
		if a.saved && r.cfg.Saved != nil {
			r.cfg.Saved(a.run, a.final.size())
		}

		a.memory.release()
		r.metrics.end(a)
		if a.started && r.cfg.Usage != nil {
			r.cfg.Usage.Observe(a.recorded)
		}

		r.remove(a) // before the message may be sent again
	}
}
