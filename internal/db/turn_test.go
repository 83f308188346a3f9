package db_test

import (
	"context"
	"database/sql"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
)

// inTurn starts transactions of SQLite, each of which takes 1 from the account a. They wait until
// the first one ends. It returns their errors when before has been called and all have ended.
func inTurn(t *testing.T, before func(*db.DB), check func(t *testing.T, d *db.DB, errs []error), all ...func(*sql.Tx) error) {
	t.Helper()
	url := dbtest.SQLite(t)
	synctest.Test(t, func(t *testing.T) {
		d := dbtest.Open(t, url, accounts())
		gate := make(chan struct{})
		errs := make([]error, len(all))
		done := make(chan struct{}, len(all))
		for i, do := range all {
			go func() {
				defer func() { done <- struct{}{} }()
				defer func() { _ = recover() }()
				errs[i] = d.Tx(t.Context(), func(tx *sql.Tx) error {
					if i == 0 {
						<-gate
					}
					if err := add(t, tx, -1, "a"); err != nil {
						return err
					}
					return do(tx)
				})
			}()
			synctest.Wait()
		}
		before(d)
		close(gate)
		for range all {
			<-done
		}
		check(t, d, errs)
	})
}

func succeeds(*sql.Tx) error { return nil }

// A transaction that fails takes only its own changes with it.
func TestATransactionThatFailsAmongOthers(t *testing.T) {
	t.Parallel()
	rollback := func(tx *sql.Tx) error {
		_, err := tx.ExecContext(context.Background(), "INSERT OR ROLLBACK INTO accounts (id, name, balance) VALUES ('a', 'Ann', 0)")
		return err
	}
	for name, row := range map[string]struct {
		do   func(tx *sql.Tx) error
		want string
	}{
		"with an error":         {func(*sql.Tx) error { return errSpoilt }, "spoilt"},
		"with a panic":          {func(*sql.Tx) error { panic("spoilt") }, ""},
		"with its goroutine":    {func(*sql.Tx) error { runtime.Goexit(); return nil }, ""},
		"with a rollback":       {rollback, "UNIQUE"},
		"and ignores the error": {func(tx *sql.Tx) error { _ = rollback(tx); return nil }, "no transaction is active"},
	} {
		for at := range 3 {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				all := []func(*sql.Tx) error{succeeds, succeeds, succeeds}
				all[at] = row.do
				inTurn(t, func(*db.DB) {}, func(t *testing.T, d *db.DB, errs []error) {
					for i, err := range errs {
						if i != at {
							require.NoError(t, err)
						} else if row.want != "" {
							require.ErrorContains(t, err, row.want)
						}
					}
					require.EqualValues(t, 98, balance(t, d, "a"))
					require.NoError(t, d.Tx(t.Context(), func(tx *sql.Tx) error { return add(t, tx, 1, "a") }), "the connection is of use")
				}, all...)
			})
		}
	}
}

func TestAContextThatEndsBeforeItsTurn(t *testing.T) {
	t.Parallel()
	inTurn(t, func(d *db.DB) {
		ctx, cancel := context.WithCancelCause(context.Background())
		done := make(chan error)
		go func() { done <- d.Tx(ctx, func(*sql.Tx) error { panic("its turn has not come") }) }()
		synctest.Wait()
		cancel(errSpoilt)
		require.ErrorIs(t, <-done, errSpoilt)
	}, func(t *testing.T, d *db.DB, errs []error) {
		require.Equal(t, []error{nil, nil}, errs)
		require.EqualValues(t, 98, balance(t, d, "a"))
	}, succeeds, succeeds)
}

// The transactions that wait when the database is closed fail.
func TestCloseWhileTransactionsWait(t *testing.T) {
	t.Parallel()
	inTurn(t, func(d *db.DB) { require.NoError(t, d.Close()) }, func(t *testing.T, _ *db.DB, errs []error) {
		require.ErrorIs(t, errs[0], errSpoilt)
		for _, err := range errs[1:] {
			require.ErrorIs(t, err, db.ErrUnavailable)
		}
	}, func(*sql.Tx) error { return errSpoilt }, succeeds, succeeds, succeeds)
}
