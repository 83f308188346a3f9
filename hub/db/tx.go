package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

const (
	maxAttempts = 10
	maxRetrying = 5 * time.Second // after the start of the first attempt; later, no attempt starts
	firstPause  = 2 * time.Millisecond
	maxPause    = 250 * time.Millisecond
	commitGrace = 10 * time.Second
)

// Tx runs do in a transaction on [DB.Write]: READ COMMITTED on PostgreSQL, exclusive on SQLite. It
// commits if do returns nil. Otherwise, or if do panics, it rolls back, and the returned error
// wraps that of do. If the engine rolls the transaction back because of concurrent ones
// (serialization failures, deadlocks, a locked file, a full disk), Tx runs do again after a pause,
// at most 10 times in 5 s: effects of do outside of the transaction may be repeated. do must return
// errors of that kind, wrapped or not. It must not commit, and must not use tx after it returns.
//
// If ctx has a check, see [WithCheck], it runs after do.
//
// When ctx ends, the statements of do end, and Tx returns the cause. A COMMIT in progress is
// completed, for up to 10 s. If the connection is lost during COMMIT, the outcome is unknown: Tx
// does not repeat the transaction, and its [ErrUnavailable] says so.
func (d *DB) Tx(ctx context.Context, do func(tx *sql.Tx) error) (err error) {
	began := time.Now()
	ctx, span := d.startSpan(ctx)
	defer func() {
		d.metrics.ended(began, err)
		endSpan(span, err)
	}()
	err = d.repeat(ctx, checked(ctx, do), began)
	if err == nil && d.log != nil {
		d.log.truncate(ctx, d.write)
	}
	return err
}

// repeat runs a transaction until an attempt succeeds or must not be repeated.
func (d *DB) repeat(ctx context.Context, do func(tx *sql.Tx) error, began time.Time) error {
	pause := firstPause
	run := d.attempt
	if d.groups != nil {
		run = d.groups.attempt
	}
	for attempt := 1; ; attempt++ {
		again, err := run(ctx, do)
		if err == nil {
			return nil
		}
		late := time.Since(began) > maxRetrying && !errors.Is(err, errBroken) // which other transactions caused
		if !again || attempt == maxAttempts || late {
			return ended(ctx, err)
		}
		d.metrics.retries.Add(ctx, 1)
		d.logger.LogAttrs(ctx, slog.LevelDebug, "repeat transaction", slog.Int("attempt", attempt), slog.Any("err", err))
		if !wait(ctx, pause/2+rand.N(pause)) { // jitter needs no secure randomness
			return ended(ctx, err)
		}
		pause, run = min(2*pause, maxPause), d.attempt
	}
}

type checkKey struct{}

// A Check decides whether a transaction may commit.
type Check func(ctx context.Context, tx *sql.Tx) error

// WithCheck returns a context whose calls of [DB.Tx] run check at the end of each transaction. If
// it fails, the transaction is rolled back, and Tx returns its error. It replaces the check of ctx;
// nil removes it.
func WithCheck(ctx context.Context, check Check) context.Context {
	return context.WithValue(ctx, checkKey{}, check)
}

func checked(ctx context.Context, do func(*sql.Tx) error) func(*sql.Tx) error {
	check, _ := ctx.Value(checkKey{}).(Check)
	if check == nil {
		return do
	}
	return func(tx *sql.Tx) error {
		if err := do(tx); err != nil {
			return err
		}
		return check(ctx, tx)
	}
}

// attempt runs the transaction once. again reports whether another attempt is safe and may succeed.
func (d *DB) attempt(ctx context.Context, do func(tx *sql.Tx) error) (again bool, err error) {
	// The transaction ends with ctx until its COMMIT starts: a disconnect of the client must not
	// leave the outcome unknown.
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	detach := context.AfterFunc(ctx, cancel)
	defer detach()
	tx, err := d.write.BeginTx(inner, nil)
	if err != nil {
		return retryable(err) || lost(err), fmt.Errorf("begin transaction: %w", err)
	}
	defer func() { _ = tx.Rollback() }() // for a panic or runtime.Goexit in do; otherwise a no-op
	if err := d.limitTx(inner, tx); err != nil {
		return retryable(err) || lost(err), err
	}
	if err := do(tx); err != nil {
		_ = tx.Rollback() // the error of do is more specific
		return retryable(err), err
	}
	if !detach() && ctx.Err() != nil {
		return false, fmt.Errorf("commit transaction: %w", context.Cause(ctx))
	}
	defer time.AfterFunc(commitGrace, cancel).Stop()
	return committed(d.metrics.commit(tx))
}

// committed returns what an error of COMMIT means for another attempt.
func committed(err error) (again bool, _ error) {
	switch {
	case err == nil:
		return false, nil
	case rolledBack(err):
		return retryable(err), fmt.Errorf("commit transaction: %w", err)
	default:
		return false, unavailable(fmt.Errorf("commit transaction, with unknown outcome: %w", err))
	}
}

// ended adds the cause of ctx to err if ctx has ended.
func ended(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return classify(ctx, err)
	}
	if cause := context.Cause(ctx); !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// groupTime is the age at which a group commits, even if more transactions wait to join it.
const groupTime = 5 * time.Millisecond

// groups lets concurrent transactions of SQLite share a COMMIT, because the sync of the disk takes
// most of the time of a small one. Those that wait for the connection join the transaction in
// progress one after another, each in a savepoint, and the last one commits for all. One that finds
// no other waits for nothing.
type groups struct {
	write   *sql.DB
	metrics *metrics

	mu      sync.Mutex    // guards the fields below
	busy    bool          // a group is in progress
	waiting []chan *group // the transactions that will join it, or begin the next one
}

// group is a transaction of the engine for several ones of [DB.Tx]. Only the one whose turn it is
// uses it.
type group struct {
	metrics *metrics
	tx      *sql.Tx // nil before BEGIN
	cancel  context.CancelFunc
	began   time.Time
	members int  // that succeeded
	broken  bool // the engine has rolled it back

	done  chan struct{} // closed after the fields below are set
	again bool
	err   error
}

// errBroken means that the engine has rolled back the transaction because of an error of another
// member: a full disk, or a context that ended.
var errBroken = unavailable(errors.New("a concurrent transaction ended the shared one"))

// attempt runs a transaction in a group. It returns when the group is committed. One that fails may
// have seen changes of the members before it: if these are not committed, it runs again.
func (q *groups) attempt(ctx context.Context, do func(*sql.Tx) error) (again bool, err error) {
	g, err := q.join(ctx)
	if err != nil {
		return false, err
	}
	first := g.members == 0
	err = q.run(ctx, g, do)
	if err != nil && (first || ctx.Err() != nil) {
		return retryable(err), err
	}
	<-g.done
	if err != nil {
		return retryable(err) || g.err != nil, err
	}
	return g.again, g.err
}

func (q *groups) newGroup() *group { return &group{metrics: q.metrics, done: make(chan struct{})} }

// join waits for the turn of a transaction, and returns its group.
func (q *groups) join(ctx context.Context) (*group, error) {
	turn := make(chan *group, 1)
	q.mu.Lock()
	if !q.busy {
		q.busy = true
		q.mu.Unlock()
		return q.newGroup(), nil
	}
	q.waiting = append(q.waiting, turn)
	q.mu.Unlock()
	select {
	case g := <-turn:
		return g, nil
	case <-ctx.Done():
	}
	q.mu.Lock()
	i := slices.Index(q.waiting, turn)
	if i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
	}
	q.mu.Unlock()
	if i < 0 { // its turn has come in the meantime
		q.next(<-turn)
	}
	return nil, fmt.Errorf("wait for transaction: %w", context.Cause(ctx))
}

// run runs do in its turn, and passes the turn on.
func (q *groups) run(ctx context.Context, g *group, do func(*sql.Tx) error) (err error) {
	succeeded := false
	defer func() { // also after a panic or runtime.Goexit in do
		if succeeded {
			g.members++
		} else {
			g.undo()
		}
		q.next(g)
	}()
	if err := g.begin(ctx, q.write); err != nil {
		return err
	}
	if err := do(g.tx); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return fmt.Errorf("commit transaction: %w", context.Cause(ctx))
	}
	err = g.exec("RELEASE member") // fails if the engine has rolled the transaction back
	succeeded = err == nil
	return err
}

// next passes the turn to a transaction that waits. If the group takes no more of them, it ends
// before.
func (q *groups) next(g *group) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 || g.members == 0 || g.broken || time.Since(g.began) >= groupTime {
		q.mu.Unlock()
		g.end()
		q.mu.Lock()
		g = q.newGroup()
	}
	if len(q.waiting) == 0 {
		q.busy = false
		return
	}
	q.waiting[0] <- g // it has space
	q.waiting = slices.Delete(q.waiting, 0, 1)
}

// begin begins the savepoint of a member, and for the first one the transaction. The end of a
// context ends the BEGIN and the statements of its member, not the transaction of the others.
func (g *group) begin(ctx context.Context, write *sql.DB) error {
	if g.tx == nil {
		inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
		detach := context.AfterFunc(ctx, cancel)
		tx, err := write.BeginTx(inner, nil)
		detach()
		if err != nil {
			cancel()
			return fmt.Errorf("begin transaction: %w", err)
		}
		g.tx, g.cancel, g.began = tx, cancel, time.Now()
	}
	return g.exec("SAVEPOINT member")
}

func (g *group) exec(statement string) error {
	_, err := g.tx.ExecContext(context.Background(), statement)
	if err != nil {
		return fmt.Errorf("%s: %w", statement, err)
	}
	return nil
}

// undo rolls back the member whose turn it is. Errors such as a full disk, and the end of a context
// during a write, have rolled back the transaction before.
func (g *group) undo() {
	if g.tx != nil && g.members > 0 {
		g.broken = g.exec("ROLLBACK TO member") != nil || g.exec("RELEASE member") != nil
	}
}

// end ends the transaction.
func (g *group) end() {
	defer close(g.done)
	if g.tx == nil {
		return
	}
	defer g.cancel()
	if g.members == 0 || g.broken {
		_ = g.tx.Rollback()
		g.again, g.err = true, errBroken
		return
	}
	g.again, g.err = committed(g.metrics.commit(g.tx))
	g.again = g.again || g.members > 1 && rolledBack(g.err)
}
