package chat

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"time"

	"github.com/seed93082962/agenthost/hub/db"
	"github.com/seed93082962/agenthost/internal/ids"
)

const (
	renewEvery  = leaseTime / 5
	writeWithin = 10 * time.Second
	retryFor    = time.Minute // an ended answer, while the database is unavailable
	batchRows   = 200         // of one transaction
)

// writer stores the answers of this hub in the background: those in progress once a second, those
// that ended as soon as the previous transaction is complete, so that many answers share one.
type writer struct {
	s    *Service
	id   string // of this hub in the leases
	wake chan struct{}
	stop context.CancelFunc
	done chan struct{}

	renewed time.Time // only the goroutine of run uses it

	mu      sync.Mutex // guards the fields below
	closed  bool
	open    sync.WaitGroup // the answers between enter and leave; Add needs mu
	watched map[string]*Answer
	finals  []*final
}

// final is an answer that has ended.
type final struct {
	session        session
	message        message
	runtimeSession string
	began          time.Time
	saved          bool
	done           chan error
}

func startWriter(s *Service) *writer {
	ctx, stop := context.WithCancel(context.Background())
	w := &writer{s: s, id: ids.New(), wake: make(chan struct{}, 1), stop: stop, done: make(chan struct{}), watched: map[string]*Answer{}}
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

// enter counts an answer. It returns false if the service is closed.
func (w *writer) enter() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false
	}
	w.open.Add(1)
	return true
}

// watch adds an answer that is in the database.
func (w *writer) watch(a *Answer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.watched[a.assistant.RunID] = a
	if w.closed {
		a.cancel(errShutdown)
	}
}

// leave removes an answer.
func (w *writer) leave(a *Answer) {
	w.mu.Lock()
	delete(w.watched, a.assistant.RunID)
	w.mu.Unlock()
	w.open.Done()
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
func (w *writer) finish(a *Answer, m message, runtimeSession string) (bool, error) {
	f := &final{session: a.session, message: m, runtimeSession: runtimeSession, began: time.Now(), done: make(chan error, 1)}
	w.mu.Lock()
	w.finals = append(w.finals, f)
	delete(w.watched, m.RunID) // its last text is in f
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default: // it will see this one too
	}
	late := time.NewTimer(writeWithin)
	defer late.Stop()
	select {
	case err := <-f.done:
		return f.saved, err
	case <-late.C:
		return false, db.ErrUnavailable
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

// tick checks and stores the answers in progress.
func (w *writer) tick(ctx context.Context) {
	w.mu.Lock()
	answers := make([]*Answer, 0, len(w.watched))
	for _, a := range w.watched {
		answers = append(answers, a)
	}
	w.mu.Unlock()
	if len(answers) == 0 {
		return
	}
	now := time.Now()
	for _, a := range answers {
		a.check(now)
	}
	for from := 0; from < len(answers); from += batchRows {
		w.savePartials(ctx, answers[from:min(from+batchRows, len(answers))])
	}
	if now.Sub(w.renewed) >= min(renewEvery, 3*w.s.cfg.SaveEvery) {
		w.renewed = now
		w.renew(ctx, answers)
	}
}

// renew renews the leases, and cancels answers on request of another hub or without a lease.
func (w *writer) renew(ctx context.Context, answers []*Answer) {
	ctx, cancel := context.WithTimeout(ctx, writeWithin)
	defer cancel()
	leases, err := renewRuns(ctx, w.s.db.Write(), w.id, w.s.now())
	if err != nil {
		w.log("renewing chat leases failed", err)
		return
	}
	alive := make(map[string]bool, len(leases))
	for _, l := range leases {
		alive[l.RunID] = true
		if l.Cancel {
			w.cancel(l.RunID, errCancelled)
		}
	}
	for _, a := range answers {
		if !alive[a.assistant.RunID] {
			w.cancel(a.assistant.RunID, errLost) // without effect if it has ended in the meantime
		}
	}
}

func (w *writer) savePartials(ctx context.Context, answers []*Answer) {
	ctx, cancel := context.WithTimeout(ctx, writeWithin)
	defer cancel()
	var changed []*Answer
	var messages []message
	for _, a := range answers {
		m := message{ID: a.assistant.ID, Seq: a.assistant.Seq}
		var ok bool
		if m.Text, m.Content, ok = a.seen.snapshot(); ok {
			changed, messages = append(changed, a), append(messages, m)
		}
	}
	if len(changed) == 0 {
		return
	}
	err := w.s.db.Tx(ctx, func(tx *sql.Tx) error {
		for i, a := range changed {
			if err := savePartial(ctx, tx, a.session, messages[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		w.log("storing partial answers failed", err)
		for _, a := range changed {
			a.seen.mu.Lock()
			a.seen.changed = true
			a.seen.mu.Unlock()
		}
	}
}

// saveFinals stores the answers that have ended. If a batch fails, each is stored in its own
// transaction, so that one cannot prevent the others.
func (w *writer) saveFinals(ctx context.Context) {
	w.mu.Lock()
	finals := w.finals
	w.finals = nil
	w.mu.Unlock()
	for len(finals) > 0 {
		batch := finals[:min(len(finals), batchRows)]
		finals = finals[len(batch):]
		err := w.saveBatch(ctx, batch)
		if err != nil && len(batch) > 1 && !errors.Is(err, db.ErrUnavailable) {
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
			saved, err := saveAnswer(ctx, tx, f.session, f.message, f.runtimeSession, w.s.now())
			if err != nil {
				return err
			}
			f.saved = saved
		}
		return nil
	})
}

// saved reports the result of a batch. The next tick tries again if the database was unavailable.
func (w *writer) saved(batch []*final, err error) {
	if err != nil {
		w.log("storing answers failed", err)
	}
	for _, f := range batch {
		if err != nil && errors.Is(err, db.ErrUnavailable) && time.Since(f.began) < retryFor {
			w.mu.Lock()
			w.finals = append(w.finals, f)
			w.mu.Unlock()
			continue
		}
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
