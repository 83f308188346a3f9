package usertest_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/usertest"
)

func TestPermissionsApplyToAnUnprivilegedUser(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	require.NoError(t, os.MkdirAll(dir, 0o700))
	for name, mode := range map[string]os.FileMode{"closed": 0, "open": 0o644} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte("x"), 0o600))
		require.NoError(t, os.Chmod(path, mode))
	}
	usertest.Enterable(t, dir)
	read := func() (closed, open error) {
		_, closed = os.ReadFile(filepath.Join(dir, "closed"))
		_, open = os.ReadFile(filepath.Join(dir, "open"))
		return closed, open
	}
	var closed, open error
	usertest.AsUnprivileged(t, func() { closed, open = read() })
	require.ErrorIs(t, closed, os.ErrPermission)
	require.NoError(t, open)

	// The test itself has not changed its user.
	if closed, _ = read(); os.Geteuid() == 0 {
		require.NoError(t, closed)
	}
}
