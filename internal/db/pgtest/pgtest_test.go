package pgtest_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/db/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// childEnv selects the action of TestInChild in a child test binary.
const childEnv = "AGENTHOST_PGTEST_CHILD"

func TestInChild(t *testing.T) {
	switch os.Getenv(childEnv) {
	case "hang":
		fmt.Println(pgtest.URL(t))
		_, _ = io.Copy(io.Discard, os.Stdin)
	case "ask":
		c := connect(t, pgtest.URL(t))
		_, err := c.Exec(t.Context(), "CREATE TABLE t (a BIGINT)")
		require.NoError(t, err)
		requireCopies(t)
	case "durable":
		requireSettings(t, pgtest.Durable(t), map[string]string{
			"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on", "autovacuum": "on", "shared_buffers": "128MB",
		})
	case "leak":
		go func() { select {} }()
	}
}

func child(t *testing.T, what string, env ...string) *exec.Cmd {
	t.Helper()
	program, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), program, "-test.run=^TestInChild$", "-test.v")
	cmd.Env = append(append(os.Environ(), env...), childEnv+"="+what)
	return cmd
}

func TestEachTestHasItsOwnDatabase(t *testing.T) {
	t.Parallel()
	for _, c := range []*pgx.Conn{connect(t, pgtest.URL(t)), connect(t, pgtest.URL(t))} {
		_, err := c.Exec(t.Context(), "CREATE TABLE t (a BIGINT)")
		require.NoError(t, err)
	}
}

func TestCopies(t *testing.T) {
	t.Parallel()
	requireCopies(t)
}

// requireCopies requires that each copy has what was filled once, and nothing of other copies.
func requireCopies(t *testing.T) {
	t.Helper()
	filled := 0
	fill := func(url string) error {
		filled++
		c, err := pgx.Connect(t.Context(), url)
		if err == nil {
			_, err = c.Exec(t.Context(), "CREATE TABLE t (a BIGINT)")
		}
		return errors.Join(err, c.Close(t.Context()))
	}
	for range 3 {
		c := connect(t, pgtest.Copy(t, t.Name(), fill))
		tag, err := c.Exec(t.Context(), "INSERT INTO t SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM t)")
		require.NoError(t, err)
		require.EqualValues(t, 1, tag.RowsAffected())
	}
	require.Equal(t, 1, filled)
}

func TestDatabaseIsDroppedWithItsConnections(t *testing.T) {
	server := pgtest.Start(t)
	t.Run("inner", func(t *testing.T) {
		_, err := pgx.Connect(t.Context(), server.URL(t))
		require.NoError(t, err)
	})
	require.Equal(t, 1, databases(t, connect(t, server.URL(t))))
}

func databases(t *testing.T, c *pgx.Conn) (n int) {
	t.Helper()
	require.NoError(t, c.QueryRow(t.Context(), `SELECT COUNT(*) FROM pg_database WHERE datname LIKE 'pgtest\_%'`).Scan(&n))
	return n
}

// A connection that was just closed may still count when the database is dropped.
func TestDatabaseIsDroppedWhenAConnectionIsFree(t *testing.T) {
	server := pgtest.Start(t, "max_connections=1", "superuser_reserved_connections=0")
	t.Run("test", func(t *testing.T) {
		url := server.URL(t)
		var c *pgx.Conn
		require.Eventually(t, func() (connected bool) {
			var err error
			c, err = pgx.Connect(t.Context(), url)
			return err == nil
		}, time.Minute, time.Millisecond)
		time.AfterFunc(100*time.Millisecond, func() { _ = c.Close(context.Background()) })
	})
}

func TestServerEndsWithTheTests(t *testing.T) {
	t.Parallel()
	cmd := child(t, "hang", pgtest.EnvURL+"=")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	defer in.Close()
	var address string
	for lines := bufio.NewScanner(out); !strings.HasPrefix(address, "postgres://") && lines.Scan(); {
		address = lines.Text()
	}
	c := connect(t, address)
	dir := directoryOf(t, address)
	require.DirExists(t, dir)

	require.NoError(t, cmd.Process.Signal(syscall.SIGKILL))
	_ = cmd.Wait()
	require.Eventually(t, func() bool { return c.Ping(t.Context()) != nil }, time.Minute, 5*time.Millisecond)
	require.Eventually(t, func() bool {
		_, err := os.Stat(dir)
		return os.IsNotExist(err)
	}, time.Minute, 5*time.Millisecond)
}

func directoryOf(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	require.NoError(t, err)
	return u.Query().Get("host")
}

func TestStopLeavesNothing(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	address := server.URL(t)
	server.Stop(t)
	require.NoDirExists(t, directoryOf(t, address))
	_, err := pgx.Connect(t.Context(), address)
	require.Error(t, err)
}

func TestNoPostgreSQLFailsTests(t *testing.T) {
	t.Parallel()
	out, err := child(t, "ask", pgtest.EnvURL+"=", pgtest.EnvBin+"="+t.TempDir()).CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "--- FAIL: TestInChild")
	require.Contains(t, string(out), "PostgreSQL is not installed")
	require.NotContains(t, string(out), "SKIP")
}

func TestServerReportsWhyItDoesNotStart(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	require.NoError(t, os.Chmod(filepath.Dir(bin), 0o755)) // the server runs as another user than the tests
	require.NoError(t, os.WriteFile(bin+"/initdb", []byte("#!/bin/sh\necho no room >&2\nexit 1\n"), 0o755))
	out, err := child(t, "ask", pgtest.EnvURL+"=", pgtest.EnvBin+"="+bin).CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "start postgres: the server ended: no room")
}

func TestGivenServer(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	address := server.URL(t)
	out, err := child(t, "ask", pgtest.EnvURL+"="+address, pgtest.EnvBin+"="+t.TempDir()).CombinedOutput()
	require.NoError(t, err, "%s", out)
	c := connect(t, address)
	require.Equal(t, 1, databases(t, c), "those of the tests are gone")
	var tables int
	require.NoError(t, c.QueryRow(t.Context(), "SELECT COUNT(*) FROM pg_tables WHERE tablename = 't'").Scan(&tables))
	require.Zero(t, tables, "nothing is written in the one given")
}

func TestGivenServerIsInvalid(t *testing.T) {
	t.Parallel()
	out, err := child(t, "ask", pgtest.EnvURL+"=postgres://u:hunter2%zz@host/db").CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "read TEST_DATABASE_URL: it is not a postgres:// URL")
	require.NotContains(t, string(out), "hunter2")
}

func TestMainFailsIfGoroutinesRemain(t *testing.T) {
	t.Parallel()
	out, err := child(t, "leak").CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "found unexpected goroutines")
}

func TestDurable(t *testing.T) {
	t.Parallel()
	out, err := child(t, "durable", pgtest.EnvURL+"=").CombinedOutput()
	require.NoError(t, err, "%s", out)
}

func TestDurableRejectsAServerThatIsNot(t *testing.T) {
	t.Parallel()
	out, err := child(t, "durable", pgtest.EnvURL+"="+pgtest.Start(t).URL(t)).CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "check settings of the server: fsync is off, and benchmarks require on")
}

func TestSettings(t *testing.T) {
	t.Parallel()
	requireSettings(t, pgtest.Start(t, "max_connections=7").URL(t), map[string]string{
		"max_connections": "7", "fsync": "off", "listen_addresses": "", "shared_buffers": "32MB",
	})
}

func requireSettings(t *testing.T, address string, settings map[string]string) {
	t.Helper()
	c := connect(t, address)
	for setting, want := range settings {
		var got string
		require.NoError(t, c.QueryRow(t.Context(), "SHOW "+setting).Scan(&got))
		require.Equal(t, want, got, setting)
	}
}

func connect(t *testing.T, address string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close(t.Context()) })
	return c
}

func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		pgtest.Start(b).Stop(b)
	}
}

func BenchmarkURL(b *testing.B) {
	for b.Loop() {
		pgtest.URL(b)
	}
}
