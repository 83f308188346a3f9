package db_test

import (
	"context"
	"database/sql"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/db"
	"github.com/seed93082962/agenthost/hub/db/dbtest"
	"github.com/seed93082962/agenthost/internal/pgtest"
)

// requireUnavailable runs every entry point against a database that cannot be used.
func requireUnavailable(t *testing.T, d *db.DB) {
	t.Helper()
	require.ErrorIs(t, d.Ping(t.Context()), db.ErrUnavailable)
	require.ErrorIs(t, d.Tx(t.Context(), func(*sql.Tx) error { return nil }), db.ErrUnavailable)
	require.ErrorIs(t, d.Migrate(t.Context(), accounts()), db.ErrUnavailable)
	require.ErrorIs(t, d.Migrated(t.Context(), accounts()), db.ErrUnavailable)
	var one int
	err := d.Read().QueryRowContext(t.Context(), "SELECT 1").Scan(&one)
	require.True(t, db.Unavailable(err), "%v", err)
	_, err = d.Write().ExecContext(t.Context(), "DELETE FROM accounts")
	require.True(t, db.Unavailable(err), "%v", err)
}

func TestServerStopped(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	url := server.URL(t)
	d := dbtest.Open(t, url, accounts())
	err := d.Tx(t.Context(), func(tx *sql.Tx) error {
		require.NoError(t, add(t, tx, 1, "a"))
		server.Stop(t)
		return add(t, tx, 1, "a")
	})
	require.ErrorIs(t, err, db.ErrUnavailable, "in a transaction")
	requireUnavailable(t, d)
	_, err = db.Open(t.Context(), db.Config{URL: url})
	require.ErrorIs(t, err, db.ErrUnavailable)
}

// A server that shuts down in good order lets those finish who are there, and nobody in.
func TestServerShutsDown(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	url := server.URL(t)
	d := dbtest.Open(t, url, accounts())
	err := d.Tx(t.Context(), func(tx *sql.Tx) error {
		var file string
		require.NoError(t, tx.QueryRowContext(t.Context(), "SELECT pg_read_file('postmaster.pid')").Scan(&file))
		first, _, _ := strings.Cut(file, "\n")
		pid, err := strconv.Atoi(first)
		require.NoError(t, err)
		require.NoError(t, syscall.Kill(pid, syscall.SIGTERM))
		require.Eventually(t, func() bool {
			_, err := db.Open(t.Context(), db.Config{URL: url})
			return err != nil && db.Unavailable(err)
		}, 30*time.Second, time.Millisecond)
		return add(t, tx, 1, "a")
	})
	require.NoError(t, err)
	server.Stop(t)
}

func TestTooManyConnections(t *testing.T) {
	t.Parallel()
	url := pgtest.Start(t, "max_connections=5", "superuser_reserved_connections=0").URL(t)
	full := dbtest.Open(t, url, accounts())
	for range 5 {
		c, err := full.Read().Conn(t.Context())
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
	}
	_, err := db.Open(t.Context(), db.Config{URL: url})
	require.ErrorIs(t, err, db.ErrUnavailable)
	require.ErrorContains(t, err, "53300")
	requireUnavailable(t, full)
}

func TestConnectionKilled(t *testing.T) {
	t.Parallel()
	const suicide = "SELECT pg_terminate_backend(pg_backend_pid())"
	d := dbtest.Open(t, pgtest.URL(t), accounts())
	err := d.Tx(t.Context(), func(tx *sql.Tx) error {
		_, err := tx.ExecContext(t.Context(), suicide)
		return err
	})
	require.ErrorIs(t, err, db.ErrUnavailable)
	_, err = d.Read().ExecContext(t.Context(), suicide)
	require.True(t, db.Unavailable(err), "%v", err)

	require.NoError(t, d.Tx(t.Context(), func(tx *sql.Tx) error { return add(t, tx, 1, "a") }), "the next has another connection")
}

// Nothing has happened when a connection turns out to be dead at BEGIN, so that a restart of the server is not felt later.
func TestIdleConnectionsKilled(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	d, killer := dbtest.Open(t, with(t, url, "application_name=idle"), accounts()), dbtest.Open(t, url)
	var idle []*sql.Conn
	for range 8 {
		c, err := d.Write().Conn(t.Context())
		require.NoError(t, err)
		idle = append(idle, c)
	}
	for _, c := range idle {
		require.NoError(t, c.Close())
	}
	require.Eventually(t, func() bool {
		var left int
		err := killer.Read().QueryRowContext(t.Context(), `SELECT COUNT(pg_terminate_backend(pid)) FROM pg_stat_activity
			WHERE datname = current_database() AND application_name = 'idle'`).Scan(&left)
		return err == nil && left == 0
	}, 30*time.Second, time.Millisecond)
	require.NoError(t, d.Tx(t.Context(), func(tx *sql.Tx) error { return add(t, tx, 1, "a") }))
}

func TestConnectionLostDuringCommit(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	d, killer := dbtest.Open(t, url, series("slow", `
CREATE TABLE t (a BIGINT);
CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(60); RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON t DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION slow();`)),
		dbtest.Open(t, url)
	runs := 0
	done := make(chan error)
	go func() {
		done <- d.Tx(t.Context(), func(tx *sql.Tx) error {
			runs++
			_, err := tx.ExecContext(t.Context(), "INSERT INTO t (a) VALUES (1)")
			return err
		})
	}()
	requireKilled(t, killer, "wait_event = 'PgSleep'")
	err := <-done
	require.ErrorIs(t, err, db.ErrUnavailable)
	require.ErrorContains(t, err, "commit transaction, which may have been made")
	require.Equal(t, 1, runs)
}

// requireKilled waits for the one connection in that state and ends it.
func requireKilled(t *testing.T, killer *db.DB, state string) {
	t.Helper()
	require.Eventually(t, func() bool {
		var killed int
		err := killer.Read().QueryRowContext(t.Context(), `SELECT COUNT(pg_terminate_backend(pid)) FROM pg_stat_activity
			WHERE datname = current_database() AND `+state).Scan(&killed)
		return err == nil && killed == 1
	}, 30*time.Second, 5*time.Millisecond)
}

// The client may leave while its COMMIT is under way: that has an end all the same, and the caller learns which.
func TestContextEndsDuringCommit(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	d, other := dbtest.Open(t, with(t, url, "lock_timeout=0"), series("waits", `
CREATE TABLE t (a BIGINT);
CREATE FUNCTION waits() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER waits AFTER INSERT ON t DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION waits();`)),
		dbtest.Open(t, url)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	require.NoError(t, other.Tx(t.Context(), func(tx *sql.Tx) error {
		_, err := tx.ExecContext(t.Context(), "SELECT pg_advisory_xact_lock(1)")
		require.NoError(t, err)
		go func() {
			done <- d.Tx(ctx, func(tx *sql.Tx) error {
				_, err := tx.ExecContext(t.Context(), "INSERT INTO t (a) VALUES (1)")
				return err
			})
		}()
		require.Eventually(t, func() bool {
			var waiting int
			err := other.Read().QueryRowContext(t.Context(), `SELECT COUNT(*) FROM pg_stat_activity
				WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&waiting)
			return err == nil && waiting == 1
		}, 30*time.Second, time.Millisecond)
		cancel()
		return nil
	}))
	require.NoError(t, <-done)
}

// A standby answers to SELECT as ever, so that it is its refusal of writes that tells.
func TestStandby(t *testing.T) {
	t.Parallel()
	d := dbtest.Open(t, with(t, pgtest.URL(t), "default_transaction_read_only=on"))
	require.ErrorIs(t, d.Ping(t.Context()), db.ErrUnavailable)
	require.ErrorIs(t, d.Migrate(t.Context(), accounts()), db.ErrUnavailable)
}

func TestLockTimeout(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	d, other := dbtest.Open(t, with(t, url, "lock_timeout=50"), accounts()), dbtest.Open(t, url)
	runs := 0
	require.NoError(t, other.Tx(t.Context(), func(tx *sql.Tx) error {
		require.NoError(t, add(t, tx, 1, "a"))
		err := d.Tx(t.Context(), func(tx *sql.Tx) error { runs++; return add(t, tx, 1, "a") })
		require.ErrorIs(t, err, db.ErrUnavailable)
		require.ErrorContains(t, err, "55P03")
		require.Equal(t, 1, runs)
		return nil
	}))
}

func TestContextEndsWhileALockIsWaitedFor(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		d, other := dbtest.Open(t, url, accounts()), dbtest.Open(t, url)
		require.NoError(t, other.Tx(t.Context(), func(tx *sql.Tx) error {
			require.NoError(t, add(t, tx, 1, "a"))
			ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, errSpoilt)
			defer cancel()
			began := time.Now()
			err := d.Tx(ctx, func(tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, "UPDATE accounts SET balance = 0 WHERE id = 'a'")
				return err
			})
			require.ErrorIs(t, err, errSpoilt)
			require.NotErrorIs(t, err, db.ErrUnavailable)
			require.Less(t, time.Since(began), 4*time.Second, "which is before any lock timeout")
			return nil
		}))
		require.EqualValues(t, 101, balance(t, d, "a"))
	})
}

// Another process, a backup for instance, has the file for itself.
func TestFileLocked(t *testing.T) {
	t.Parallel()
	url := dbtest.SQLite(t)
	d, other := dbtest.Open(t, url, accounts()), dbtest.Open(t, url)
	require.NoError(t, other.Tx(t.Context(), func(*sql.Tx) error {
		err := d.Tx(t.Context(), func(*sql.Tx) error { return nil })
		require.ErrorIs(t, err, db.ErrUnavailable)
		require.ErrorContains(t, err, "database is locked")
		_, err = d.Write().ExecContext(t.Context(), "DELETE FROM accounts")
		require.True(t, db.Unavailable(err), "%v", err)
		require.EqualValues(t, 100, balance(t, d, "a"), "readers go on")
		require.NoError(t, d.Ping(t.Context()))
		return nil
	}))
	require.NoError(t, d.Tx(t.Context(), func(tx *sql.Tx) error { return add(t, tx, 1, "a") }))
}

// While a transaction waits, the file is unlocked: it goes on without having failed.
func TestFileUnlockedInTime(t *testing.T) {
	t.Parallel()
	url := dbtest.SQLite(t)
	d, other := dbtest.Open(t, url, accounts()), dbtest.Open(t, url)
	done := make(chan error)
	require.NoError(t, other.Tx(t.Context(), func(*sql.Tx) error {
		go func() { done <- d.Tx(t.Context(), func(tx *sql.Tx) error { return add(t, tx, 1, "a") }) }()
		select {
		case err := <-done:
			t.Errorf("it does not wait: %v", err)
		case <-time.After(1500 * time.Millisecond): // longer than SQLite itself waits
		}
		return nil
	}))
	require.NoError(t, <-done)
}
