package chaos_test

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

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

// While the disk is full, nothing is acknowledged that is lost, and no response is an internal error.
// Afterwards, the hub works without a restart.
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

// phase runs all callers for a time.
func phase(t *testing.T, c *client, length time.Duration) {
	ctx, stop := context.WithTimeout(t.Context(), length)
	defer stop()
	load(ctx, c).Wait()
}
