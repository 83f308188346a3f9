package db_test

import (
	"context"
	"database/sql"
	"net/url"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/internal/db/pgtest"
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
	address := server.URL(t)
	d := dbtest.Open(t, address, accounts())
	err := d.Tx(t.Context(), func(tx *sql.Tx) error {
		require.NoError(t, add(t, tx, 1, "a"))
		server.Stop(t)
		return add(t, tx, 1, "a")
	})
	require.ErrorIs(t, err, db.ErrUnavailable, "in a transaction")
	requireUnavailable(t, d)
	_, err = db.Open(t.Context(), db.Config{URL: address})
	require.ErrorIs(t, err, db.ErrUnavailable)
}

// A server that shuts down completes the transactions of its clients and accepts no new
// connections.
func TestServerShutsDown(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	address := server.URL(t)
	d := dbtest.Open(t, address, accounts())
	err := d.Tx(t.Context(), func(tx *sql.Tx) error {
		var file string
		require.NoError(t, tx.QueryRowContext(t.Context(), "SELECT pg_read_file('postmaster.pid')").Scan(&file))
		first, _, _ := strings.Cut(file, "\n")
		pid, err := strconv.Atoi(first)
		require.NoError(t, err)
		require.NoError(t, syscall.Kill(pid, syscall.SIGTERM))
		require.Eventually(t, func() bool {
			_, err := db.Open(t.Context(), db.Config{URL: address})
			return err != nil && db.Unavailable(err)
		}, time.Minute, time.Millisecond)
		return add(t, tx, 1, "a")
	})
	require.NoError(t, err)
	server.Stop(t)
}

func TestTooManyConnections(t *testing.T) {
	t.Parallel()
	address := pgtest.Start(t, "max_connections=5", "superuser_reserved_connections=0").URL(t)
	full := dbtest.Open(t, address, accounts())
	for range 5 {
		var c *sql.Conn
		require.Eventually(t, func() (ok bool) { // the server may still end connections that were closed
			var err error
			c, err = full.Read().Conn(t.Context())
			return err == nil
		}, time.Minute, 5*time.Millisecond)
		t.Cleanup(func() { _ = c.Close() })
	}
	_, err := db.Open(t.Context(), db.Config{URL: address})
	require.ErrorIs(t, err, db.ErrUnavailable)
	require.ErrorContains(t, err, "53300")
	requireUnavailable(t, full)
}

// A failed connection is unavailable for every reason. Each row prevents new connections of
// a role to its database and ends the existing ones.
func TestConnectionsThatCannotBeMade(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	admin := dbtest.Open(t, server.URL(t))
	var hba string
	require.NoError(t, admin.Read().QueryRowContext(t.Context(), "SHOW hba_file").Scan(&hba))
	require.NoError(t, os.WriteFile(hba, []byte("local all postgres trust\nlocal all all scram-sha-256\n"), 0o600))
	run(t, admin, "SELECT pg_reload_conf()")
	for i, row := range []struct{ name, statement, state string }{
		{"the password has changed", `ALTER ROLE $ PASSWORD 'another'`, "28P01"},
		{"the role may not log in", `ALTER ROLE $ NOLOGIN`, "28000"},
		{"the role is gone", `ALTER ROLE $ RENAME TO former_$`, "28P01"},
		{"the role may not connect", `REVOKE CONNECT ON DATABASE $ FROM PUBLIC, $`, "42501"},
		{"the database accepts no connections", `ALTER DATABASE $ ALLOW_CONNECTIONS false`, "55000"},
		{"the database is gone", `ALTER DATABASE $ RENAME TO former_$`, "3D000"},
		{"the role has too many connections", `ALTER ROLE $ CONNECTION LIMIT 0`, "53300"},
	} {
		t.Run(row.name, func(t *testing.T) {
			name := "hub" + strconv.Itoa(i) // of the role and of the database
			address := databaseOfRole(t, server, admin, name)
			d := dbtest.Open(t, address, accounts())

			require.NoError(t, disconnect(t, admin, name))
			run(t, admin, strings.ReplaceAll(row.statement, "$", name))
			require.NoError(t, disconnect(t, admin, name))
			requireUnavailable(t, d)
			_, err := db.Open(t.Context(), db.Config{URL: address})
			require.ErrorIs(t, err, db.ErrUnavailable)
			require.ErrorContains(t, err, "(SQLSTATE "+row.state+")")
			require.NotContains(t, err.Error(), secret)
		})
	}
}

// databaseOfRole creates a role and a database of that name, and returns the URL with which the
// role connects.
func databaseOfRole(t *testing.T, server *pgtest.Server, admin *db.DB, name string) string {
	t.Helper()
	run(t, admin, `CREATE ROLE `+name+` LOGIN PASSWORD '`+secret+`'`)
	run(t, admin, `CREATE DATABASE `+name+` OWNER `+name)
	u, err := url.Parse(server.URL(t))
	require.NoError(t, err)
	u.Path = "/" + name
	u.User = url.UserPassword(name, secret)
	return u.String()
}

// disconnect ends all connections of the role and waits until none is left.
func disconnect(t *testing.T, admin *db.DB, role string) error {
	t.Helper()
	for {
		var left int
		err := admin.Read().QueryRowContext(t.Context(),
			`SELECT COUNT(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename = $1`, role).Scan(&left)
		if err != nil || left == 0 {
			return err
		}
	}
}

// The file is not a database, for example after a failed restore.
func TestFileIsNotADatabase(t *testing.T) {
	t.Parallel()
	address := dbtest.SQLite(t)
	path := strings.TrimPrefix(address, "sqlite://")
	require.NoError(t, os.WriteFile(path, []byte(strings.Repeat("This is no database. ", 100)), 0o600))
	_, err := db.Open(t.Context(), db.Config{URL: address})
	require.ErrorIs(t, err, db.ErrUnavailable)
	require.ErrorContains(t, err, "file is not a database")
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

// The driver closes a connection that was reset between its check and the next statement.
func TestStatementOfAClosedConnection(t *testing.T) {
	t.Parallel()
	d := dbtest.Open(t, pgtest.URL(t))
	c, err := d.Read().Conn(t.Context())
	require.NoError(t, err)
	defer c.Close()
	require.ErrorIs(t, c.Raw(func(conn any) error {
		pg := conn.(*stdlib.Conn).Conn()
		require.NoError(t, pg.PgConn().Close(t.Context()))
		_, err := pg.Exec(t.Context(), "SELECT 1")
		require.True(t, db.Unavailable(err), "%v", err)
		return err
	}), pgconn.ErrConnClosed)
}

// A connection that is closed at BEGIN is replaced: a restart of the server causes no later errors.
func TestIdleConnectionsKilled(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	d, killer := dbtest.Open(t, with(t, address, "application_name=idle"), accounts()), dbtest.Open(t, address)
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
	}, time.Minute, time.Millisecond)
	require.NoError(t, d.Tx(t.Context(), func(tx *sql.Tx) error { return add(t, tx, 1, "a") }))
}

func TestConnectionLostDuringCommit(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	d, killer := dbtest.Open(t, address, series("slow", `
CREATE TABLE t (a BIGINT);
CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(60); RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON t DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION slow();`)),
		dbtest.Open(t, address)
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
	require.ErrorContains(t, err, "commit transaction, with unknown outcome")
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
	}, time.Minute, 5*time.Millisecond)
}

// The client disconnects during COMMIT: it is completed, and the caller gets its outcome.
func TestContextEndsDuringCommit(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	d, other := dbtest.Open(t, with(t, address, "lock_timeout=0"), series("waits", `
CREATE TABLE t (a BIGINT);
CREATE FUNCTION waits() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER waits AFTER INSERT ON t DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION waits();`)),
		dbtest.Open(t, address)
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
		}, time.Minute, time.Millisecond)
		cancel()
		return nil
	}))
	require.NoError(t, <-done)
}

// A standby accepts SELECT: it is recognized because it rejects writes.
func TestStandby(t *testing.T) {
	t.Parallel()
	d := dbtest.Open(t, with(t, pgtest.URL(t), "default_transaction_read_only=on"))
	require.ErrorIs(t, d.Ping(t.Context()), db.ErrUnavailable)
	require.ErrorIs(t, d.Migrate(t.Context(), accounts()), db.ErrUnavailable)
}

func TestLockTimeout(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	d, other := dbtest.Open(t, with(t, address, "lock_timeout=50"), accounts()), dbtest.Open(t, address)
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

// A transaction of a suspended hub does not keep its locks: the server ends it, and the hub neither
// commits it nor uses its connection again.
func TestSuspendedInATransaction(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	d := dbtest.Open(t, with(t, address, "idle_in_transaction_session_timeout=200ms&pool_max_conns=1"), accounts())
	other := dbtest.Open(t, with(t, address, "lock_timeout=0"))
	for name, resume := range map[string]func(tx *sql.Tx) error{
		"in a statement": func(tx *sql.Tx) error { return add(t, tx, 100, "a") },
		"in COMMIT":      func(*sql.Tx) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			before := balance(t, other, "a")
			err := d.Tx(t.Context(), func(tx *sql.Tx) error {
				require.NoError(t, add(t, tx, 10, "a"))
				// It waits for the lock until the server has ended the transaction above.
				require.NoError(t, other.Tx(t.Context(), func(tx *sql.Tx) error { return add(t, tx, 1, "a") }))
				return resume(tx)
			})
			require.ErrorIs(t, err, db.ErrUnavailable)
			require.EqualValues(t, before+1, balance(t, other, "a"))
			require.NoError(t, d.Tx(t.Context(), func(tx *sql.Tx) error { return add(t, tx, 1, "a") }))
		})
	}
}

func TestContextEndsWhileALockIsWaitedFor(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, address string) {
		d, other := dbtest.Open(t, address, accounts()), dbtest.Open(t, address)
		require.NoError(t, other.Tx(t.Context(), func(tx *sql.Tx) error {
			require.NoError(t, add(t, tx, 1, "a"))
			ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, errSpoilt)
			defer cancel()
			err := d.Tx(ctx, func(tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, "UPDATE accounts SET balance = 0 WHERE id = 'a'")
				return err
			})
			require.ErrorIs(t, err, errSpoilt)
			require.NotErrorIs(t, err, db.ErrUnavailable, "which a lock timeout is")
			return nil
		}))
		require.EqualValues(t, 101, balance(t, d, "a"))
	})
}

// Another process, such as a backup, has locked the file.
func TestFileLocked(t *testing.T) {
	t.Parallel()
	address := dbtest.SQLite(t)
	d, other := dbtest.Open(t, address, accounts()), dbtest.Open(t, address)
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

// The file is unlocked while a transaction waits: the transaction succeeds.
func TestFileUnlockedInTime(t *testing.T) {
	t.Parallel()
	address := dbtest.SQLite(t)
	d, other := dbtest.Open(t, address, accounts()), dbtest.Open(t, address)
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
