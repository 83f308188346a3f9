package db_test

import (
	"database/sql"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/internal/db/pgtest"
	"github.com/seed93082962/agenthost/internal/logtest"
)

const secret = "hunter2SECRET"

func TestBadURL(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "text"), []byte(strings.Repeat("This is no database. ", 100)), 0o600))
	const neither = "open database: the URL is neither sqlite://<path> nor postgres://<user>:<password>@<host>/<database>"
	rows := []struct{ name, url, want string }{
		{"empty", "", "open database: the URL is empty: use sqlite://<path> or postgres://<user>:<password>@<host>/<database>"},
		{"another engine", "mysql://root:" + secret + "@host/db", neither},
		{"no scheme", "host/" + secret, neither},
		{"settings of libpq", "host=localhost password=" + secret, neither},
		{"one slash", "sqlite:/" + secret, neither},
		{"capitals", "SQLITE://x.db", neither},
		{"no path", "sqlite://", "open database: the sqlite:// URL has no path"},
		{"memory", "sqlite://:memory:", "open database: the sqlite:// URL must name a file: an in-memory database belongs to one connection, and the hub uses several"},
		{"options", "sqlite://x.db?mode=ro", "open database: the sqlite:// URL contains a ?: options and file names with a ? are not supported"},
		{"NUL", "sqlite://x\x00.db", "open database: the path of the sqlite:// URL contains a NUL character"},
		{"a directory", "sqlite://" + dir, "open database: make file: open " + dir + ": is a directory"},
		{"below a file", "sqlite://" + dir + "/text/hub.db", "open database: make directory: mkdir " + dir + "/text: not a directory"},
		{"a text", "sqlite://" + dir + "/text", "file is not a database"},
		{"a password that is not escaped", "postgres://u:" + secret + "%zz@host/db", "open database: the postgres:// URL cannot be parsed: escape special characters in user and password as %XX"},
		{"a password with a slash", "postgres://u:" + secret + "/1@host/db", "open database: the postgres:// URL cannot be parsed"},
		{"a bad port", "postgres://u:" + secret + "@host:99999/db", "open database: the postgres:// URL cannot be used: invalid port"},
		{"a bad mode", "postgres://u:" + secret + "@host/db?sslmode=perhaps", "open database: the postgres:// URL cannot be used: failed to configure TLS"},
		{"a password that looks like a port", "postgres://u:" + secret + ":# 00", "open database: the postgres:// URL cannot be used: failed to parse as URL"},
		{"a bad size", "postgres://u:" + secret + "@host/db?pool_max_conns=many", "open database: the postgres:// URL cannot be used: "},
		{"nobody there", "postgres://u:" + secret + "@127.0.0.1:1/db", "open database: the database is unavailable: "},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			_, err := db.Open(t.Context(), db.Config{URL: row.url})
			require.ErrorContains(t, err, row.want)
			require.NotContains(t, err.Error(), secret)
			require.NotContains(t, err.Error(), "\n", "one sentence")
		})
	}
	_, err := db.Open(t.Context(), db.Config{URL: "sqlite://" + dir + "/hub.db", MaxConns: -1})
	require.EqualError(t, err, "open database: MaxConns is -1, and must not be negative")
	require.NoFileExists(t, dir+"/hub.db")
}

func TestFilesAreReadableOnlyByTheirOwner(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "new #1", "50%20", "hub.db") // nothing in a path is decoded
	d := dbtest.Open(t, "sqlite://"+path, accounts())
	require.NoError(t, d.Tx(t.Context(), func(tx *sql.Tx) error { return add(t, tx, 1, "a") }))
	for name, want := range map[string]os.FileMode{
		path: 0o600, path + "-wal": 0o600, path + "-shm": 0o600,
		filepath.Dir(path): os.ModeDir | 0o700, filepath.Dir(filepath.Dir(path)): os.ModeDir | 0o700,
	} {
		info, err := os.Stat(name)
		require.NoError(t, err)
		require.Equal(t, want, info.Mode(), name)
	}
}

// A backup that was restored, or a former umask, may have left the files readable by every user.
func TestWidePermissionsAreTightened(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		mode os.FileMode
		link bool
	}{{0o644, false}, {0o660, false}, {0o604, false}, {0o777, false}, {0o644, true}} {
		mode := row.mode
		t.Run(fmt.Sprintf("%v, link: %t", mode, row.link), func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "hub.db")
			files := []string{path, path + "-wal", path + "-shm"}
			first := dbtest.Open(t, "sqlite://"+path, accounts()) // it remains open, and so do the three files
			require.NoError(t, first.Tx(t.Context(), func(tx *sql.Tx) error { return add(t, tx, 1, "a") }))
			for _, name := range files {
				require.NoError(t, os.Chmod(name, mode))
			}
			opened := path
			if row.link {
				opened = filepath.Join(t.TempDir(), "link.db")
				require.NoError(t, os.Symlink(path, opened))
			}
			var log logtest.Buffer
			d, err := db.Open(t.Context(), db.Config{URL: "sqlite://" + opened, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			require.NoError(t, err)
			defer func() { require.NoError(t, d.Close()) }()
			for _, name := range files {
				info, err := os.Stat(name)
				require.NoError(t, err)
				require.Equal(t, os.FileMode(0o600), info.Mode(), name)
				require.Contains(t, log.String(), "file="+name+" mode="+mode.String())
			}
			require.Equal(t, 3, strings.Count(log.String(), "level=WARN"))
			require.EqualValues(t, 101, balance(t, d, "a"))
		})
	}
}

func TestClearTextConnectionsToOtherHostsAreReported(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ name, rest, host string }{
		{"another host", "db.internal/hub", "db.internal"},
		{"its address", "192.0.2.7:5432/hub", "192.0.2.7"},
		{"its IPv6 address", "[2001:db8::7]/hub", "2001:db8::7"},
		{"TLS is off", "db.internal/hub?sslmode=disable", "db.internal"},
		{"TLS is optional", "db.internal/hub?sslmode=prefer", "db.internal"},
		{"TLS comes second", "db.internal/hub?sslmode=allow", "db.internal"},
		{"the second of two hosts", "127.0.0.1,db.internal/hub", "db.internal"},
		{"after a Unix socket", "/hub?host=/run/postgresql,db.internal", "db.internal"},
		{"as a parameter", "/hub?host=db.internal", "db.internal"},
		{"in capitals, which may be another host", "LOCALHOST.internal/hub", "LOCALHOST.internal"},
		{"all addresses", "0.0.0.0/hub", "0.0.0.0"},
		{"TLS is required", "db.internal/hub?sslmode=require", ""},
		{"TLS is verified", "db.internal/hub?sslmode=verify-full", ""},
		{"loopback", "127.0.0.1/hub", ""},
		{"another loopback address", "127.8.8.8/hub", ""},
		{"IPv6 loopback", "[::1]/hub", ""},
		{"IPv4 loopback as IPv6", "[::ffff:127.0.0.1]/hub", ""},
		{"localhost", "localhost/hub", ""},
		{"a Unix socket", "/hub?host=/run/postgresql", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := contextThatEnded() // no connection is made
			defer cancel()
			var log logtest.Buffer
			_, err := db.Open(ctx, db.Config{URL: "postgres://hub:" + secret + "@" + row.rest, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			require.Error(t, err)
			if row.host == "" {
				require.Empty(t, log.String())
				return
			}
			require.Contains(t, log.String(), "level=WARN")
			require.Contains(t, log.String(), "sslmode=verify-full")
			require.Contains(t, log.String(), "host="+row.host)
			require.NotContains(t, log.String(), secret)
		})
	}
}

func TestRelativePath(t *testing.T) {
	t.Chdir(t.TempDir())
	dbtest.Open(t, "sqlite://./data/hub.db")
	require.FileExists(t, "data/hub.db")
}

func TestSettingsOfSQLite(t *testing.T) {
	t.Parallel()
	d := dbtest.Open(t, dbtest.SQLite(t), accounts())
	require.Equal(t, db.SQLite, d.Engine())
	for pragma, want := range map[string]string{"journal_mode": "wal", "foreign_keys": "1", "synchronous": "2", "fullfsync": "1"} {
		var got string
		require.NoError(t, d.Write().QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&got))
		require.Equal(t, want, got, pragma)
	}
	_, err := d.Read().ExecContext(t.Context(), "DELETE FROM accounts")
	require.ErrorContains(t, err, "attempt to write a readonly database")
	require.False(t, db.Unavailable(err), "it is a mistake of the program")
	require.Equal(t, 1, d.Write().Stats().MaxOpenConnections)
	require.Equal(t, 8, d.Read().Stats().MaxOpenConnections)
}

func TestSettingsOfPostgreSQL(t *testing.T) {
	url := pgtest.URL(t)
	rows := []struct{ name, options, setting, want string }{
		{"lock timeout", "", "lock_timeout", "5s"},
		{"lock timeout given", "lock_timeout=70ms", "lock_timeout", "70ms"},
		{"idle timeout", "", "idle_in_transaction_session_timeout", "30s"},
		{"idle timeout given", "idle_in_transaction_session_timeout=7s", "idle_in_transaction_session_timeout", "7s"},
		{"name", "", "application_name", "agenthost"},
		{"name given", "application_name=other", "application_name", "other"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			d := dbtest.Open(t, with(t, url, row.options))
			require.Equal(t, db.PostgreSQL, d.Engine())
			var got string
			require.NoError(t, d.Write().QueryRowContext(t.Context(), "SHOW "+row.setting).Scan(&got))
			require.Equal(t, row.want, got)
		})
	}
}

// A function of the same name, which is found first, reports an old version.
func TestServerTooOld(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	run(t, dbtest.Open(t, url), `CREATE FUNCTION public.current_setting(text) RETURNS text LANGUAGE sql AS 'SELECT ''120022''::text'`)
	_, err := db.Open(t.Context(), db.Config{URL: with(t, url, "search_path=public,pg_catalog")})
	require.EqualError(t, err, "open database: the server is PostgreSQL 12, and 13 or newer is required")
	require.NotErrorIs(t, err, db.ErrUnavailable)
}

func TestPing(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) { require.NoError(t, dbtest.Open(t, url).Ping(t.Context())) })
}

func TestLogger(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	d, err := db.Open(t.Context(), db.Config{URL: dbtest.SQLite(t), Logger: slog.New(slog.NewTextHandler(&log, nil))})
	require.NoError(t, err)
	require.NoError(t, d.Migrate(t.Context(), accounts()))
	require.NoError(t, d.Migrate(t.Context(), accounts()))
	require.NoError(t, d.Close())
	require.Equal(t, 1, strings.Count(log.String(), "\n"))
	require.Contains(t, log.String(), `level=INFO msg="database migrated" migrations=1`)
}

// FuzzURL checks that no error about a URL contains its password. No connection is made.
func FuzzURL(f *testing.F) {
	for _, seed := range []string{"@127.0.0.1:1/db", "%zz@127.0.0.1:1/db", "@127.0.0.1:99999/db", "@127.0.0.1:1/db?sslmode=x", "`: @[::1/", "\n@x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, rest string) {
		ctx, cancel := contextThatEnded()
		defer cancel()
		d, err := db.Open(ctx, db.Config{URL: "postgres://user:" + secret + rest})
		if err == nil {
			_ = d.Close()
			return
		}
		require.NotContains(t, err.Error(), secret)
	})
}
