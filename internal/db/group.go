package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/seed93082962/agenthost/internal/leaf/sqlerr"
)

const (
	maxGroup    = 50                    // members of one transaction
	groupWithin = 10 * time.Second      // for the statements of one transaction
	groupLock   = 50 * time.Millisecond // after which a member that waits for a lock no longer holds up the others
	groupHurry  = time.Millisecond      // instead of groupLock, from groupLock after the begin of the first member
)

// Group runs transactions that begin at the same time as one, so that they share its BEGIN and its
// COMMIT. The first one begins at once, and those that begin before it ends are the next one
// together. Each is a savepoint: one that fails has no effect on the others.
type Group struct {
	db    *DB
	begin func(ctx context.Context, tx *sql.Tx) error

	mu      sync.Mutex // guards the fields below
	busy    bool       // a member leads
	waiting []*member
}

// NewGroup returns a group whose transactions begin with a function.
func NewGroup(d *DB, begin func(ctx context.Context, tx *sql.Tx) error) *Group {
	return &Group{db: d, begin: begin}
}

// member is a call of [Group.Tx].
type member struct {
	ctx  context.Context
	do   func(ctx context.Context, tx *sql.Tx) error
	step chan step // has one element once it is decided

	outcome step // if the transaction commits
	next    step
	err     error // if next is over
}

// step is what a member does next.
type step int

const (
	alone step = iota // runs a transaction of its own
	leads             // runs the next transaction
	over              // has its result
)

// Tx is [DB.Tx] for a member of the group. do uses the context that it gets: a statement that ended
// with the caller's context would end the transaction of the others.
func (g *Group) Tx(ctx context.Context, do func(ctx context.Context, tx *sql.Tx) error) error {
	m := &member{ctx: ctx, do: do, step: make(chan step, 1)}
	g.mu.Lock()
	if g.busy {
		g.waiting = append(g.waiting, m)
	} else {
		g.busy = true
		m.step <- leads
	}

	g.mu.Unlock()
	select {
	case m.next = <-m.step:
	case <-ctx.Done():
		if g.leave(m) {
			return context.Cause(ctx)
		}

		m.next = <-m.step
	}

	if m.next == leads {
		g.lead(m)
	}

	if m.next == alone {
		return g.single(m, g.begin)
	}

	return m.err
}

// leave removes a member that waits. It reports whether it did.
func (g *Group) leave(m *member) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, other := range g.waiting {
		if other == m {
			g.waiting = append(g.waiting[:i], g.waiting[i+1:]...)
			return true
		}
	}

	return false
}

// lead runs the transaction of m and of those that wait, and then lets the next one lead.
func (g *Group) lead(m *member) {
	runtime.Gosched() // calls that are about to begin join
	g.mu.Lock()
	n := min(len(g.waiting), maxGroup-1)
	batch := append([]*member{m}, g.waiting[:n]...)
	g.waiting = g.waiting[n:]
	g.mu.Unlock()
	defer g.pass()
	if len(batch) == 1 {
		m.next, m.err = over, g.single(m, g.enter)
		if sqlerr.LockTimeout(m.err) {
			m.next = alone // while it waits for the lock, others begin
		}

		return
	}

	for _, one := range batch {
		one.next = alone
	}

	defer func() {
		for _, other := range batch[1:] {
			other.step <- other.next
		}
	}()
	g.run(batch)
}

func (g *Group) pass() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.waiting) == 0 {
		g.busy, g.waiting = false, nil
		return
	}

	g.waiting[0].step <- leads
	g.waiting = g.waiting[1:]
}

// single runs a member in a transaction of its own.
func (g *Group) single(m *member, begin func(context.Context, *sql.Tx) error) error {
	return g.db.Tx(m.ctx, func(tx *sql.Tx) error {
		if err := begin(m.ctx, tx); err != nil {
			return err
		}

		return m.do(m.ctx, tx)
	})
}

// enter begins a transaction for which others wait.
func (g *Group) enter(ctx context.Context, tx *sql.Tx) error {
	if err := g.begin(ctx, tx); err != nil {
		return err
	}

	return g.limitLocks(ctx, tx, groupLock)
}

// limitLocks bounds the time for which the next statements wait for a lock. A transaction of SQLite
// waits for none.
func (g *Group) limitLocks(ctx context.Context, tx *sql.Tx, within time.Duration) error {
	if g.db.engine != PostgreSQL {
		return nil
	}

	return Exec(ctx, tx, "limit locks", fmt.Sprintf(`SET LOCAL lock_timeout = '%dms'`, within.Milliseconds()))
}

// run runs the members in one transaction. If it fails for another reason than that the database is
// unavailable, each of them runs alone.
func (g *Group) run(batch []*member) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(WithCheck(batch[0].ctx, nil)), groupWithin)
	defer cancel()
	err := g.db.Tx(ctx, func(tx *sql.Tx) error {
		if err := g.enter(ctx, tx); err != nil {
			return err
		}

		began, hurry := time.Now(), false
		for _, m := range batch {
			if !hurry && time.Since(began) > groupLock { // the waits of all together are bounded
				hurry = true
				if err := g.limitLocks(ctx, tx, groupHurry); err != nil {
					return err
				}
			}

			if err := m.within(ctx, tx); err != nil {
				return err
			}
		}

		return nil
	})
	for _, m := range batch {
		switch {
		case err == nil:
			m.next = m.outcome
		case Unavailable(err): // the outcome of the COMMIT may be unknown
			m.next, m.err = over, err
		}
	}
}

// errPanicked is the error of a member that panics. It does so again when it runs alone, in the
// goroutine of its caller.
var errPanicked = errors.New("panicked")

// within runs a member in a savepoint. It fails if the transaction has failed.
func (m *member) within(ctx context.Context, tx *sql.Tx) error {
	if m.err = context.Cause(m.ctx); m.err != nil {
		m.outcome = over
		return nil //nolint:nilerr // the others continue
	}

	if err := Exec(ctx, tx, "begin savepoint", "SAVEPOINT member"); err != nil {
		return err
	}

	err := m.protected(ctx, tx)
	if err == nil {
		err = context.Cause(m.ctx)
	}

	m.outcome, m.err = over, nil
	if err == nil {
		return Exec(ctx, tx, "end savepoint", "RELEASE SAVEPOINT member")
	}

	m.err = ended(m.ctx, err)
	if retryable(err) || sqlerr.LockTimeout(err) || errors.Is(err, errPanicked) {
		m.outcome = alone
	}

	return Exec(ctx, tx, "roll back to savepoint", "ROLLBACK TO SAVEPOINT member")
}

// protected runs a member and its check with the values of its context, until ctx ends.
func (m *member) protected(ctx context.Context, tx *sql.Tx) (err error) {
	defer func() {
		if recover() != nil {
			err = errPanicked
		}
	}()

	own, cancel := context.WithCancelCause(context.WithoutCancel(m.ctx))
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()
	if err := m.do(own, tx); err != nil {
		return err
	}

	if check, _ := m.ctx.Value(checkKey{}).(Check); check != nil {
		return check(own, tx)
	}

	return nil
}
