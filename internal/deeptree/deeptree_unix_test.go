//go:build unix

package deeptree_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/deeptree"
)

// A tree with more levels than the process may have descriptors is deleted, and what links in it
// lead to is not.
func TestRemove(t *testing.T) {
	top := t.TempDir()
	outside := filepath.Join(top, "outside")
	require.NoError(t, os.WriteFile(outside, []byte("canary"), 0o400))
	dir := filepath.Join(top, "tree")
	require.NoError(t, os.Mkdir(dir, 0o700))
	at, err := os.OpenRoot(dir)
	require.NoError(t, err)
	for range 2000 {
		require.NoError(t, at.Mkdir("deep", 0o700))
		require.NoError(t, at.Symlink(outside, "link"))
		require.NoError(t, at.Symlink(top, "parent"))
		next, err := at.OpenRoot("deep")
		require.NoError(t, err)
		require.NoError(t, at.Chmod(".", 0o500))
		require.NoError(t, at.Close())
		at = next
	}
	require.NoError(t, at.Close())
	var limit syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	few := limit
	few.Cur = 200
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few))
	defer func() { require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)) }()
	require.NoError(t, deeptree.Remove(dir))
	require.NoFileExists(t, dir)
	require.NoDirExists(t, dir)
	content, err := os.ReadFile(outside)
	require.NoError(t, err)
	require.Equal(t, "canary", string(content))
	require.NoError(t, deeptree.Remove(dir), "it is missing")
}
