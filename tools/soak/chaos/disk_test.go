package chaos_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// volume mounts a file system of a size, and returns its directory.
func volume(t *testing.T, size string) string {
	dir := t.TempDir()
	require.NoError(t, syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size))
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	return dir
}

// fill writes a file until the disk is full, and returns its path.
func fill(t *testing.T, dir string) string {
	path := filepath.Join(dir, "fill")
	file, err := os.Create(path)
	require.NoError(t, err)
	defer file.Close()
	for block := make([]byte, 4096); err == nil; {
		_, err = file.Write(block)
	}
	require.ErrorIs(t, err, syscall.ENOSPC)
	return path
}

// While the disk is full, nothing is acknowledged that is lost, and no response is an internal
// error. Afterwards, the hub works without a restart.
func TestFullDisk(t *testing.T) {
	dir := volume(t, "256m")
	in := newInstallationIn(t, dir, 1, false)
	c := in.setUp(t)
	for range 3 {
		phase(t, c, 3*time.Second)
		path := fill(t, dir)
		phase(t, c, 5*time.Second)
		require.NoError(t, os.Remove(path))
		require.NoError(t, eventually(t.Context(), patience, func(ctx context.Context) error {
			_, err := in.probe(ctx, c)
			return err
		}), in.logs())
	}
	k := &checker{in: in, c: c}
	findings := k.check(t.Context())
	report(c.journal, nil)
	require.Empty(t, findings, in.logs())
	in.remove(t, k)
}

// While PostgreSQL takes no changes, nothing is acknowledged that is lost, and no response is an
// internal error. Afterwards, both hubs work without a restart.
func TestReadOnlyPostgres(t *testing.T) {
	in := newInstallation(t, 2, true)
	c := in.setUp(t)
	db, err := pgx.Connect(t.Context(), in.database+"?default_transaction_read_only=off")
	require.NoError(t, err)
	defer db.Close(context.WithoutCancel(t.Context()))
	for range 2 {
		phase(t, c, 3*time.Second)
		for _, value := range []string{"on", "off"} {
			_, err = db.Exec(t.Context(), "ALTER SYSTEM SET default_transaction_read_only = "+value)
			require.NoError(t, err)
			_, err = db.Exec(t.Context(), "SELECT pg_reload_conf()")
			require.NoError(t, err)
			if value == "on" {
				phase(t, c, 6*time.Second)
			}
		}
		begin := time.Now()
		var took time.Duration
		require.NoError(t, eventually(t.Context(), patience, func(ctx context.Context) (err error) {
			took, err = in.probe(ctx, c)
			return err
		}), in.logs())
		fmt.Printf("PostgreSQL read-only for 6 s: out of service for %v after it\n", (time.Since(begin) - took).Round(time.Millisecond))
	}
	k := &checker{in: in, c: c}
	findings := k.check(t.Context())
	report(c.journal, nil)
	require.Empty(t, findings, in.logs())
	in.remove(t, k)
}

// phase runs all callers for a time.
func phase(t *testing.T, c *client, length time.Duration) {
	ctx, stop := context.WithTimeout(t.Context(), length)
	defer stop()
	load(ctx, c).Wait()
}
