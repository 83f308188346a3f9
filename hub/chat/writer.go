package chat

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/db"
	"github.com/seed93082962/agenthost/internal/ids"
)

const (
	renewEvery  = leaseTime / 5
	writeWithin = 10 * time.Second
	retryFor    = time.Minute // an ended answer, while the database is unavailable
	batchRows   = 200         // of one transaction
	batchBytes  = 8 << 20     // of the answers in progress of one transaction
)

// writer stores the answers of this hub in the background: those in progress when they have grown,
// at most once a second, those that ended as soon as the previous transaction is complete, so that
// many answers share one. It renews the leases of exactly these answers.
type writer struct {
	s    *Service
	id   string // of this hub in the leases
	wake chan struct{}
	stop context.CancelFunc
	done chan struct{}

	renewed time.Time // only the goroutine of run uses it

	mu      sync.Mutex // guards the fields below
	closed  bool
	open    sync.WaitGroup     // the answers between enter and leave; Add needs mu
	opening map[*Answer]string // answers that may not be in the database yet, with the keys of their sessions
	watched map[string]*Answer // those that are relayed, by the id of the run
	finals  []*final           // those that have ended
	saving  []*final           // those of finals that are being stored
}

// final is an answer that has ended.
type final struct {
	session     session
	message     message
	usedSession string // of the runtime
	nextSession string // of the runtime, for the next message
	began       time.Time
	memory      *account
	saved       bool
	done        chan error
}

func startWriter(s *Service) *writer {
	ctx, stop := context.WithCancel(context.Background())
	w := &writer{s: s, id: ids.New(), wake: make(chan struct{}, 1), stop: stop, done: make(chan struct{}), opening: map[*Answer]string{}, watched: map[string]*Answer{}}
	go w.run(ctx)
	return w
}

// close cancels all answers and waits until they are stored.
func (w *writer) close() {
	w.mu.Lock()
	w.closed = true
	for _, a := range w.watched {
		a.cancel(errShutdown)
	}
	w.mu.Unlock()
	w.open.Wait()
	w.stop()
	<-w.done
}

// enter counts an answer that begins. It returns false if the service is closed.
func (w *writer) enter(a *Answer) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false
	}
	w.open.Add(1)
	w.opening[a] = a.session.Key
	return true
}

// watch adds an answer that is in the database.
func (w *writer) watch(a *Answer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.opening, a)
	w.watched[a.assistant.RunID] = a
	if w.closed {
		a.cancel(errShutdown)
	}
}

// leave removes an answer.
func (w *writer) leave(a *Answer) {
	w.mu.Lock()
	delete(w.opening, a)
	delete(w.watched, a.assistant.RunID)
	w.mu.Unlock()
	w.open.Done()
}

// has reports whether this hub relays or stores the answer of a run.
func (w *writer) has(r run) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, key := range w.opening {
		if key == r.SessionKey {
			return true
		}
	}
	return w.watched[r.ID] != nil || w.ends(r.ID)
}

// ends is ending for callers that hold the mutex.
func (w *writer) ends(runID string) bool {
	of := func(f *final) bool { return f.message.RunID == runID }
	return slices.ContainsFunc(w.finals, of) || slices.ContainsFunc(w.saving, of)
}

// ending reports whether this hub stores the end of the answer of a run.
func (w *writer) ending(runID string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ends(runID)
}

// cancel cancels an answer if this hub relays it.
func (w *writer) cancel(runID string, cause error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if a := w.watched[runID]; a != nil {
		a.cancel(cause)
	}
}

// finish stores an answer that has ended, and reports whether its session still exists. If the
// database is unavailable, it returns after writeWithin, and the writer continues to try.
func (w *writer) finish(a *Answer, m message, used, next string) (bool, error) {
	f := &final{session: a.session, message: m, usedSession: used, nextSession: next, began: time.Now(), memory: &a.memory, done: make(chan error, 1)}
	w.add(f)
	late := time.NewTimer(writeWithin)
	defer late.Stop()
	select {
	case err := <-f.done:
		return f.saved, err
	case <-late.C:
		return false, db.ErrUnavailable
	}
}

// abandon ends an answer that was perhaps stored, and whose run was not started.
func (w *writer) abandon(a *Answer) {
	m := a.assistant
	m.Status, m.Failure = statusFailed, Failure{string(api.Unavailable), "The database was unavailable: send the message again."}
	w.add(&final{session: a.session, message: m, nextSession: a.session.RuntimeSession, began: time.Now(), memory: &a.memory, done: make(chan error, 1)})
}

func (w *writer) add(f *final) {
	w.mu.Lock()
	w.finals = append(w.finals, f)
	delete(w.watched, f.message.RunID) // its last text is in f
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default: // it will see this one too
	}
}

func (w *writer) run(ctx context.Context) {
	defer close(w.done)
	tick := time.NewTicker(w.s.cfg.SaveEvery)
	defer tick.Stop()
	for {
		select {
		case <-w.wake:
			w.saveFinals(ctx)
		case <-tick.C:
			w.saveFinals(ctx) // those that could not be written before
			w.tick(ctx)
		case <-ctx.Done():
			w.saveFinals(context.WithoutCancel(ctx))
			return
		}
	}
}

// partial is an answer in progress whose lease is renewed, and its text if it is stored.
type partial struct {
	runID   string
	answer  *Answer // nil for one that has ended and could not be stored yet
	message message
	changed bool
}

// tick checks and stores the answers in progress, and renews their leases.
func (w *writer) tick(ctx context.Context) {
	w.mu.Lock()
	all := make([]partial, 0, len(w.watched)+len(w.finals))
	for id, a := range w.watched {
		all = append(all, partial{runID: id, answer: a})
	}
	for _, f := range w.finals {
		all = append(all, partial{runID: f.message.RunID})
	}
	w.mu.Unlock()
	now := time.Now()
	renew := now.Sub(w.renewed) >= min(renewEvery, 3*w.s.cfg.SaveEvery)
	if renew {
		w.renewed = now
	}
	var batch []partial
	size := 0
	for _, p := range all {
		if a := p.answer; a != nil {
			a.check(now)
			p.message = message{ID: a.assistant.ID, Seq: a.assistant.Seq}
			p.message.Text, p.message.Content, p.changed = a.seen.snapshot()
		}
		if !renew && !p.changed {
			continue
		}
		batch, size = append(batch, p), size+len(p.message.Text)+len(p.message.Content)
		if len(batch) == batchRows || size >= batchBytes {
			w.savePartials(ctx, batch)
			batch, size = nil, 0
		}
	}
	if len(batch) > 0 {
		w.savePartials(ctx, batch)
	}
}

// savePartials renews the leases of answers, and stores the text of those that this hub still has.
// It cancels the others, and answers on request of another hub.
func (w *writer) savePartials(ctx context.Context, batch []partial) {
	ctx, cancel := context.WithTimeout(ctx, writeWithin)
	defer cancel()
	ids := make([]string, len(batch))
	for i, p := range batch {
		ids[i] = p.runID
	}
	var owned map[string]bool
	var cancelled []string
	err := w.s.db.Tx(ctx, func(tx *sql.Tx) error {
		owned, cancelled = map[string]bool{}, nil
		leases, err := renewRuns(ctx, tx, w.id, ids, w.s.now())
		if err != nil {
			return err
		}
		for _, l := range leases {
			owned[l.RunID] = true
			if l.Cancel {
				cancelled = append(cancelled, l.RunID)
			}
		}
		for _, p := range batch {
			if !p.changed || !owned[p.runID] {
				continue
			}
			if err := savePartial(ctx, tx, p.answer.session, p.message); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		w.log("storing partial answers failed", err)
		for _, p := range batch {
			if p.changed {
				p.answer.seen.unsaved()
			}
		}
		return
	}
	for _, id := range cancelled {
		w.cancel(id, errCancelled)
	}
	for _, id := range ids {
		if !owned[id] {
			w.cancel(id, errLost) // without effect if it has ended in the meantime
		}
	}
}

// saveFinals stores the answers that have ended. If a batch fails, each is stored in its own
// transaction, so that one cannot prevent the others.
func (w *writer) saveFinals(ctx context.Context) {
	w.mu.Lock()
	finals := w.finals
	w.finals, w.saving = nil, finals
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		w.saving = nil
		w.mu.Unlock()
	}()
	for len(finals) > 0 {
		batch := finals[:min(len(finals), batchRows)]
		finals = finals[len(batch):]
		err := w.saveBatch(ctx, batch)
		if err != nil && len(batch) > 1 && !errors.Is(err, db.ErrUnavailable) { // also errNotOwned of one
			for i := range batch {
				w.saved(batch[i:i+1], w.saveBatch(ctx, batch[i:i+1]))
			}
			continue
		}
		w.saved(batch, err)
	}
}

func (w *writer) saveBatch(ctx context.Context, batch []*final) error {
	ctx, cancel := context.WithTimeout(ctx, writeWithin)
	defer cancel()
	return w.s.db.Tx(ctx, func(tx *sql.Tx) error {
		for _, f := range batch {
			saved, err := saveAnswer(ctx, tx, f, w.id, w.s.now())
			if err != nil {
				return err
			}
			f.saved = saved
		}
		return nil
	})
}

// saved reports the result of a batch. The next tick tries again if the database was unavailable.
// An answer that could not be stored stays partial, and its lease ends by itself.
func (w *writer) saved(batch []*final, err error) {
	switch {
	case len(batch) == 1 && errors.Is(err, errStored):
		batch[0].saved, err = true, nil
	case len(batch) == 1 && errors.Is(err, errNotOwned):
		batch[0].saved, err = false, nil
	case err != nil:
		w.log("storing answers failed", err)
	}
	for _, f := range batch {
		if err != nil && errors.Is(err, db.ErrUnavailable) && time.Since(f.began) < retryFor {
			w.mu.Lock()
			w.finals = append(w.finals, f)
			w.mu.Unlock()
			continue
		}
		f.memory.release()
		f.done <- err
	}
}

func (w *writer) log(what string, err error) { w.s.cfg.Logger.Warn(what, "err", err) } //nolint:sloglint // callers pass constants

// check cancels an answer whose runtime sends nothing or too much.
func (a *Answer) check(now time.Time) {
	var received int64
	if events := a.events.Load(); events != nil {
		received = events.Received()
	}
	if received != a.received {
		a.received, a.progressed = received, now
	}
	switch {
	case now.Sub(a.progressed) > a.s.cfg.IdleTimeout:
		a.cancel(errIdle)
	case now.Sub(a.began) > a.s.cfg.RunTimeout, received > maxReceived:
		a.cancel(errEndless)
	}
}
