package db_test

import (
	"context"
	"database/sql"
	"errors"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
)

// taking is an amount that a member takes from an account.
type taking struct {
	amount  int
	alone   bool   // together leaves it out
	during  func() // called by together and alone
	invalid string // a statement that fails
}

func (w taking) do(ctx context.Context, tx *sql.Tx) error {
	if w.during != nil {
		w.during()
	}
	if w.invalid != "" {
		return db.Exec(ctx, tx, "fail", w.invalid)
	}
	return db.Exec(ctx, tx, "take", "UPDATE accounts SET balance = balance - $1 WHERE id = 'a'", w.amount)
}

func take(amount int) taking { return taking{amount: amount} }

// grouped has the calls of a group, of which the first one waits until all others wait for it.
type grouped struct {
	t *testing.T
	d *db.DB
	*db.Group[taking]

	sizes []int // of the transactions of several members
	gate  chan struct{}
	calls sync.WaitGroup
}

func group(t *testing.T, url string) *grouped {
	t.Helper()
	g := &grouped{t: t, d: dbtest.Open(t, url, accounts()), gate: make(chan struct{})}
	g.Group = db.NewGroup(g.d, func(ctx context.Context, tx *sql.Tx, all []taking) ([]bool, error) {
		g.sizes = append(g.sizes, len(all))
		var done []bool
		for _, w := range all {
			if !w.alone {
				if err := w.do(ctx, tx); err != nil {
					return nil, err
				}
			}
			done = append(done, !w.alone)
		}
		return done, nil
	})
	inside := make(chan struct{})
	g.calls.Go(func() {
		_ = g.call(t.Context(), taking{during: func() { close(inside); <-g.gate }})
	})
	<-inside
	return g
}

func (g *grouped) call(ctx context.Context, w taking) error {
	return g.Tx(ctx, w, func(tx *sql.Tx) error {
		if err := w.do(ctx, tx); err != nil {
			return err
		}
		if w.alone {
			return errSpoilt
		}
		return nil
	})
}

// start calls Tx and returns where its error will be, once it waits.
func (g *grouped) start(ctx context.Context, w taking) *error {
	g.t.Helper()
	result := new(error)
	waiting := g.Waiting()
	g.calls.Go(func() {
		defer func() {
			if reason := recover(); reason != nil {
				*result = errors.New("panic")
			}
		}()
		*result = g.call(ctx, w)
	})
	for g.Waiting() == waiting {
		runtime.Gosched()
	}
	return result
}

// end lets the first call end, and waits for all.
func (g *grouped) end() {
	close(g.gate)
	g.calls.Wait()
}

// Calls that wait share a transaction, in which each has its own result.
func TestGroup(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		g := group(t, url)
		var results []*error
		for range 70 { // 62 and two that are not done, and 8
			results = append(results, g.start(t.Context(), take(1)))
			if len(results) == 1 {
				results = append(results, g.start(t.Context(), taking{amount: 1000, alone: true}),
					g.start(db.WithCheck(t.Context(), func(context.Context, *sql.Tx) error { return errSpoilt }), take(1000)))
			}
		}
		g.end()
		for i, err := range results {
			if i == 1 || i == 2 {
				require.ErrorIs(t, *err, errSpoilt)
			} else {
				require.NoError(t, *err)
			}
		}
		require.EqualValues(t, 100-70, balance(t, g.d, "a"))
		require.Equal(t, []int{1, 63, 8}, g.sizes)
	})
}

// If the transaction of several fails, each has one of its own.
func TestGroupThatFails(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		g := group(t, url)
		before := g.start(t.Context(), take(1))
		invalid := g.start(t.Context(), taking{invalid: "INSERT INTO accounts (id, name, balance) VALUES ('a', 'Ann', 0)"})
		after := g.start(t.Context(), take(1))
		g.end()
		require.NoError(t, errors.Join(*before, *after))
		require.True(t, db.UniqueViolation(*invalid), *invalid)
		require.EqualValues(t, 98, balance(t, g.d, "a"))
	})
}

// A call whose context ends has no effect, whether it waits or runs alone. The others are not
// disturbed.
func TestGroupWithContextsThatEnd(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		g := group(t, url)
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errSpoilt)
		require.ErrorIs(t, g.call(ctx, take(1)), errSpoilt, "it does not wait")
		ctx, cancel = context.WithCancelCause(t.Context())
		before := g.start(t.Context(), taking{amount: 1, during: func() { cancel(errSpoilt) }})
		during := g.start(ctx, taking{amount: 1000, alone: true})
		after := g.start(t.Context(), take(1))
		g.end()
		require.NoError(t, errors.Join(*before, *after))
		require.ErrorIs(t, *during, errSpoilt)
		require.EqualValues(t, 98, balance(t, g.d, "a"))
	})
}

// ending is a context that ends after some calls of Err.
type ending struct {
	context.Context

	calls int
}

func (e *ending) Err() error {
	if e.calls--; e.calls < 0 {
		return errSpoilt
	}
	return nil
}

// A call has no error if it is committed, whenever its context ends.
func TestGroupWithContextsThatEndAnyTime(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		g := group(t, url)
		var results []*error
		for calls := range 8 {
			results = append(results, g.start(&ending{t.Context(), calls}, take(1)))
		}
		g.end()
		committed := 0
		for _, err := range results {
			if *err == nil {
				committed++
			}
		}
		require.EqualValues(t, 100-committed, balance(t, g.d, "a"))
	})
}

// A call that panics does so in its own goroutine, and one that ends the goroutine of the leader
// ends nobody else.
func TestGroupWithPanics(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		for name, end := range map[string]func(){"panic": func() { panic("spoilt") }, "Goexit": runtime.Goexit} {
			t.Run(name, func(t *testing.T) {
				g := group(t, url)
				first := g.start(t.Context(), take(1))
				spoilt := g.start(t.Context(), taking{amount: 1000, during: end})
				last := g.start(t.Context(), take(1))
				was := balance(t, g.d, "a")
				g.end()
				if name == "panic" {
					require.NoError(t, *first)
					require.EqualError(t, *spoilt, "panic")
				}
				require.NoError(t, *last)
				require.Contains(t, []int64{was - 1, was - 2}, balance(t, g.d, "a"))
				require.NoError(t, g.call(t.Context(), take(0)), "the group is free")
			})
		}
	})
}

func TestGroupWithoutADatabase(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		g := group(t, url)
		one, two := g.start(t.Context(), take(1)), g.start(t.Context(), take(1))
		close(g.gate)
		require.NoError(t, g.d.Close())
		g.calls.Wait()
		for _, err := range []error{*one, *two, g.call(t.Context(), take(1))} {
			if err != nil {
				require.ErrorIs(t, err, db.ErrUnavailable)
			}
		}
	})
}
