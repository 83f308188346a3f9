package db_test

import (
	"context"
	"database/sql"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
)

// grouped has the calls of a group, of which the first one waits until all others wait for it.
type grouped struct {
	t *testing.T
	d *db.DB
	*db.Group

	begins int // transactions
	gate   chan struct{}
	calls  sync.WaitGroup
}

func group(t *testing.T, url string) *grouped {
	t.Helper()
	g := &grouped{t: t, d: dbtest.Open(t, url, accounts()), gate: make(chan struct{})}
	g.Group = db.NewGroup(g.d, func(context.Context, *sql.Tx) error { g.begins++; return nil })
	inside := make(chan struct{})
	g.calls.Go(func() {
		_ = g.Tx(t.Context(), func(context.Context, *sql.Tx) error {
			close(inside)
			<-g.gate
			return nil
		})
	})
	<-inside
	return g
}

// start calls Tx and returns where its error will be, once it waits.
func (g *grouped) start(ctx context.Context, do func(context.Context, *sql.Tx) error) *error {
	g.t.Helper()
	result := new(error)
	waiting := g.Waiting()
	g.calls.Go(func() {
		defer func() {
			if reason := recover(); reason != nil {
				*result = errors.New("panic")
			}
		}()
		*result = g.Tx(ctx, do)
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

func take(amount int) func(context.Context, *sql.Tx) error {
	return func(ctx context.Context, tx *sql.Tx) error {
		return db.Exec(ctx, tx, "take", "UPDATE accounts SET balance = balance - $1 WHERE id = 'a'", amount)
	}
}

// Calls that wait share a transaction, in which each has its own result.
func TestGroup(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		g := group(t, url)
		var results []*error
		for range 60 { // 50 and 10
			results = append(results, g.start(t.Context(), take(1)))
		}
		failed := g.start(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
			return errors.Join(take(1000)(ctx, tx), errSpoilt)
		})
		invalid := g.start(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
			return db.Exec(ctx, tx, "fail", "INSERT INTO accounts (id, name, balance) VALUES ('a', 'Ann', 0)")
		})
		refused := g.start(db.WithCheck(t.Context(), func(context.Context, *sql.Tx) error { return errSpoilt }), take(1000))
		last := g.start(t.Context(), take(1))
		g.end()
		for _, err := range append(results, last) {
			require.NoError(t, *err)
		}
		require.ErrorIs(t, *failed, errSpoilt)
		require.ErrorIs(t, *refused, errSpoilt)
		require.True(t, db.UniqueViolation(*invalid), *invalid)
		require.EqualValues(t, 100-61, balance(t, g.d, "a"))
		require.Equal(t, 3, g.begins)
	})
}

// A call whose context ends has no effect, whether it waits or runs. The others are not disturbed.
func TestGroupWithContextsThatEnd(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		g := group(t, url)
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errSpoilt)
		require.ErrorIs(t, g.Tx(ctx, take(1)), errSpoilt, "it does not wait")
		before := g.start(t.Context(), take(1))
		ctx, cancel = context.WithCancelCause(t.Context())
		during := g.start(ctx, func(own context.Context, tx *sql.Tx) error {
			cancel(errSpoilt)
			return take(1000)(own, tx)
		})
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
			} else {
				require.ErrorIs(t, *err, errSpoilt)
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
				spoilt := g.start(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
					if err := take(1000)(ctx, tx); err != nil {
						return err
					}
					end()
					return nil
				})
				last := g.start(t.Context(), take(1))
				was := balance(t, g.d, "a")
				g.end()
				if name == "panic" {
					require.NoError(t, *first)
					require.EqualError(t, *spoilt, "panic")
				}
				require.NoError(t, *last)
				require.Contains(t, []int64{was - 1, was - 2}, balance(t, g.d, "a"))
				require.NoError(t, g.Tx(t.Context(), take(0)), "the group is free")
			})
		}
	})
}

// A call that waits for a lock does not hold up the others, whether it is in their transaction or
// they wait for its end.
func TestGroupWithALock(t *testing.T) {
	t.Parallel()
	for _, first := range []bool{false, true} {
		g := group(t, dbtest.PostgreSQL(t))
		locked, release := make(chan struct{}), make(chan struct{})
		var holder sync.WaitGroup
		holder.Go(func() {
			_ = g.d.Tx(t.Context(), func(tx *sql.Tx) error {
				err := add(t, tx, 1, "b")
				close(locked)
				<-release
				return err
			})
		})
		<-locked
		waits := g.start(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
			return db.Exec(ctx, tx, "wait", "UPDATE accounts SET balance = balance - 1 WHERE id = 'b'")
		})
		other := make(chan error, 1)
		if first {
			close(g.gate)
			for g.Waiting() > 0 {
				runtime.Gosched()
			}
		}
		g.calls.Go(func() { other <- g.Tx(t.Context(), take(1)) })
		if !first {
			close(g.gate)
		}
		require.NoError(t, <-other, "it ends while the lock is held")
		close(release)
		g.calls.Wait()
		holder.Wait()
		require.NoError(t, *waits)
		require.EqualValues(t, 99, balance(t, g.d, "a"))
		require.EqualValues(t, 100, balance(t, g.d, "b"))
	}
}

// Many calls that wait for a lock hold up the others about as long as one.
func TestGroupWithManyLocks(t *testing.T) {
	t.Parallel()
	const waiting, each = 48, 50 * time.Millisecond
	g := group(t, dbtest.PostgreSQL(t))
	locked, release := make(chan struct{}), make(chan struct{})
	var holder sync.WaitGroup
	holder.Go(func() {
		_ = g.d.Tx(t.Context(), func(tx *sql.Tx) error {
			err := add(t, tx, 1, "b")
			close(locked)
			<-release
			return err
		})
	})
	<-locked
	var waits []*error
	for range waiting {
		waits = append(waits, g.start(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
			return db.Exec(ctx, tx, "wait", "UPDATE accounts SET balance = balance - 1 WHERE id = 'b'")
		}))
	}
	other := make(chan error, 1)
	g.calls.Go(func() { other <- g.Tx(t.Context(), take(1)) })
	for g.Waiting() <= waiting {
		runtime.Gosched()
	}
	began := time.Now()
	close(g.gate)
	require.NoError(t, <-other, "it ends while the lock is held")
	require.Less(t, time.Since(began), waiting*each/2)
	close(release)
	g.calls.Wait()
	holder.Wait()
	for _, err := range waits {
		require.NoError(t, *err)
	}
	require.EqualValues(t, 100+1-waiting, balance(t, g.d, "b"))
}

func TestGroupWithoutADatabase(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		g := group(t, url)
		one, two := g.start(t.Context(), take(1)), g.start(t.Context(), take(1))
		close(g.gate)
		require.NoError(t, g.d.Close())
		g.calls.Wait()
		for _, err := range []error{*one, *two, g.Tx(t.Context(), take(1))} {
			if err != nil {
				require.ErrorIs(t, err, db.ErrUnavailable)
			}
		}
	})
}
