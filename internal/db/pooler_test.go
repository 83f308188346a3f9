package db_test

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/internal/db/pgtest"
)

// A pooler gives each transaction another connection, on which nothing was prepared or set.
func TestConcurrentTransactionsThroughAPooler(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"transaction", "session"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			d := dbtest.Open(t, pgtest.Pooler(t, pgtest.URL(t), mode), accounts())
			var all sync.WaitGroup
			for range 32 {
				all.Go(func() {
					for i := range 20 {
						err := d.Tx(t.Context(), func(tx *sql.Tx) error { return add(t, tx, i%2, "a") })
						if !assertNil(t, err) || !assertNil(t, read(t.Context(), d, i)) {
							return
						}
					}
				})
			}
			all.Wait()
			require.EqualValues(t, 100+32*10, balance(t, d, "a"))
		})
	}
}

func assertNil(t *testing.T, err error) bool {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
	return err == nil
}

// read executes one of several statements, so that connections differ in what they have prepared.
func read(ctx context.Context, d *db.DB, i int) error {
	var n int
	query := fmt.Sprintf("SELECT COUNT(*) + %d FROM accounts WHERE balance > $1", i)
	return d.Read().QueryRowContext(ctx, query, 0).Scan(&n)
}

func TestTimeLimitsThroughAPooler(t *testing.T) {
	t.Parallel()
	server := pgtest.URL(t)
	address := pgtest.Pooler(t, server, "transaction")
	for _, row := range []struct{ name, options, setting, want string }{
		{"lock timeout", "", "lock_timeout", "5s"},
		{"lock timeout given", "lock_timeout=70ms", "lock_timeout", "70ms"},
		{"idle timeout", "", "idle_in_transaction_session_timeout", "30s"},
		{"idle timeout given", "idle_in_transaction_session_timeout=7s", "idle_in_transaction_session_timeout", "7s"},
		{"name", "", "application_name", "agenthost"},
	} {
		t.Run(row.name, func(t *testing.T) {
			d := dbtest.Open(t, with(t, address, row.options))
			var got string
			err := d.Tx(t.Context(), func(tx *sql.Tx) error {
				return tx.QueryRowContext(t.Context(), "SHOW "+row.setting).Scan(&got)
			})
			require.NoError(t, err)
			require.Equal(t, row.want, got)
		})
	}
}

func TestParameterThatAPoolerRejects(t *testing.T) {
	t.Parallel()
	address := with(t, pgtest.Pooler(t, pgtest.URL(t), "transaction"), "search_path=public")
	_, err := db.Open(t.Context(), db.Config{URL: address})
	require.ErrorContains(t, err, "search_path")
	require.ErrorContains(t, err, "ALTER ROLE")
}

// pg_dump and pg_restore set parameters of their session, which the pooler gives to others.
func TestBackupThroughAPooler(t *testing.T) {
	t.Parallel()
	address := pgtest.Pooler(t, pgtest.URL(t), "transaction")
	config := db.Config{URL: address}
	err := db.Load(t.Context(), config, dbtest.Programs(t), strings.NewReader(""))
	require.ErrorContains(t, err, "set DATABASE_URL to the server itself")
	d := dbtest.Open(t, address, accounts())
	err = d.Dump(t.Context(), dbtest.Programs(t), io.Discard, func(db.Querier) error { return nil })
	require.ErrorContains(t, err, "set DATABASE_URL to the server itself")
}

// A server that ends breaks the connections of the pooler, and not those to it.
func TestServerBehindAPoolerRestarts(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	d := dbtest.Open(t, pgtest.Pooler(t, server.URL(t), "transaction"), accounts())
	require.EqualValues(t, 100, balance(t, d, "a"))
	server.Stop(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	err := d.Tx(ctx, func(tx *sql.Tx) error { return add(t, tx, 1, "a") })
	require.ErrorIs(t, err, db.ErrUnavailable)
}
