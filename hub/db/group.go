package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// groupTime is the age at which a group commits, even if more transactions wait to join it.
const groupTime = 5 * time.Millisecond

// groups lets concurrent transactions of SQLite share a COMMIT, because the sync of the disk takes
// most of the time of a small one. Those that wait for the connection join the transaction in
// progress one after another, each in a savepoint, and the last one commits for all. One that finds
// no other waits for nothing.
type groups struct {
	write *sql.DB

	mu      sync.Mutex    // guards the fields below
	busy    bool          // a group is in progress
	waiting []chan *group // the transactions that will join it, or begin the next one
}

// group is a transaction of the engine for several ones of [DB.Tx]. Only the one whose turn it is
// uses it.
type group struct {
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

// join waits for the turn of a transaction, and returns its group.
func (q *groups) join(ctx context.Context) (*group, error) {
	turn := make(chan *group, 1)
	q.mu.Lock()
	if !q.busy {
		q.busy = true
		q.mu.Unlock()
		return &group{done: make(chan struct{})}, nil
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
		g = &group{done: make(chan struct{})}
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
	g.again, g.err = committed(g.tx.Commit())
	g.again = g.again || g.members > 1 && rolledBack(g.err)
}
