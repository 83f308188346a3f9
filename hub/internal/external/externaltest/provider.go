// Package externaltest starts the OpenID provider of tests: a certified one, on Node.js, which
// make setup installs.
package externaltest

import (
	"bufio"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Provider starts a provider for the hub at an address, until the test ends, and returns its
// issuer. The test is of a package below hub.
func Provider(t testing.TB, hub string) (issuer string) {
	t.Helper()
	dir := filepath.Join("..", "external", "testdata", "provider")
	require.DirExists(t, filepath.Join(dir, "node_modules"), "make setup installs the provider")
	cmd := exec.CommandContext(t.Context(), "node", "provider.mjs", hub)
	cmd.Dir, cmd.Stderr, cmd.Env = dir, t.Output(), append(cmd.Environ(), "NODE_ENV=test")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	lines := bufio.NewScanner(out)
	require.True(t, lines.Scan(), "the provider did not start")
	return lines.Text()
}
