package db

import (
	"context"
	"database/sql"
	"errors"
	"runtime"
	"sync"
	"time"
)

const (
	maxGroup    = 64               // members of one transaction
	groupWithin = 10 * time.Second // for the statements of one transaction
)

// Group runs transactions that begin at the same time as one, so that they share its statements.
// The first one begins at once, and those that begin before it ends are the next one together. T is
// what a member gives to them.
type Group[T any] struct {
	db       *DB
	together func(ctx context.Context, tx *sql.Tx, all []T) ([]bool, error)

	mu      sync.Mutex // guards the fields below
	busy    bool       // a member leads
	waiting []*member[T]
}

// NewGroup returns a group. together does what all of some members do, at least one, and reports
// which of them it has done: it leaves out one that fails, or that would wait for a lock, without
// an effect. If it fails or panics, it has done none of them.
func NewGroup[T any](d *DB, together func(ctx context.Context, tx *sql.Tx, all []T) ([]bool, error)) *Group[T] {
	return &Group[T]{db: d, together: together}
}

// member is a call of [Group.Tx].
type member[T any] struct {
	ctx  context.Context
	give T
	step chan step // has one element once it is decided

	next step
	err  error // if next is over
}

// step is what a member does next.
type step int

const (
	alone step = iota // runs a transaction of its own
	leads             // runs the next transaction
	over              // has its result
)

// Tx commits what together does for a member, or else runs do in a transaction of its own, as
// [DB.Tx]. The check of ctx, see [WithCheck], runs before together.
func (g *Group[T]) Tx(ctx context.Context, give T, do func(tx *sql.Tx) error) error {
	m := &member[T]{ctx: ctx, give: give, step: make(chan step, 1)}
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
		return g.db.Tx(ctx, do)
	}

	return m.err
}

// leave removes a member that waits. It reports whether it did.
func (g *Group[T]) leave(m *member[T]) bool {
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
func (g *Group[T]) lead(m *member[T]) {
	runtime.Gosched() // calls that are about to begin join
	g.mu.Lock()
	n := min(len(g.waiting), maxGroup-1)
	batch := append([]*member[T]{m}, g.waiting[:n]...)
	g.waiting = g.waiting[n:]
	g.mu.Unlock()
	for _, one := range batch {
		one.next = alone
	}

	defer func() {
		for _, other := range batch[1:] {
			other.step <- other.next
		}

		g.pass()
	}()
	g.run(batch)
}

func (g *Group[T]) pass() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.waiting) == 0 {
		g.busy, g.waiting = false, nil
		return
	}

	g.waiting[0].step <- leads
	g.waiting = g.waiting[1:]
}

// run runs the members in one transaction. If it fails for another reason than that the database is
// unavailable, each of them runs alone.
func (g *Group[T]) run(batch []*member[T]) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(WithCheck(batch[0].ctx, nil)), groupWithin)
	defer cancel()
	var done map[*member[T]]bool
	err := g.db.Tx(ctx, func(tx *sql.Tx) (err error) {
		defer func() {
			if recover() != nil {
				err = errPanicked
			}
		}()

		done, err = g.within(ctx, tx, batch)
		return err
	})
	for _, m := range batch {
		switch {
		case Unavailable(err): // the outcome of the COMMIT may be unknown
			m.next, m.err = over, err
		case err == nil && done[m]:
			m.next = over
		case m.ctx.Err() != nil:
			m.next, m.err = over, context.Cause(m.ctx)
		}
	}
}

// errPanicked is the error of a transaction that panics. Its members have transactions of their
// own, each in the goroutine of its caller.
var errPanicked = errors.New("panicked")

// within returns the members whose work is done. A member whose context or access has ended has a
// transaction of its own, which returns the error.
func (g *Group[T]) within(ctx context.Context, tx *sql.Tx, batch []*member[T]) (map[*member[T]]bool, error) {
	done := map[*member[T]]bool{}
	var members []*member[T]
	var all []T
	for _, m := range batch {
		check, _ := m.ctx.Value(checkKey{}).(Check)
		if m.ctx.Err() != nil || check != nil && check(ctx, tx) != nil {
			continue
		}

		members, all = append(members, m), append(all, m.give)
	}

	if len(all) == 0 {
		return done, nil
	}

	complete, err := g.together(ctx, tx, all)
	for i, m := range members {
		done[m] = err == nil && complete[i]
	}

	return done, err
}
