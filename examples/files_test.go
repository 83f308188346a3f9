package examples_test

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// serveFiles starts a program that serves a directory, and tries to leave the directory.
func serveFiles(t *testing.T, program string) {
	dir := filepath.Join(t.TempDir(), "served")
	require.NoError(t, os.Mkdir(dir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "..", "secret"), []byte("secret"), 0o600))
	require.NoError(t, os.Symlink("../secret", filepath.Join(dir, "trap")))
	server := exec.CommandContext(t.Context(), program, "-dir", dir, "-addr", "127.0.0.1:0")
	url := listening(t, server)
	for _, step := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"PUT", "/notes/today.md", "# Today\n", 204, ""},
		{"GET", "/notes/today.md", "", 200, "# Today\n"},
		{"GET", "/", "", 200, "notes/\ntrap\n"},
		{"GET", "/trap", "", 404, "not found\n"},
		{"PUT", "/trap", "x", 403, "the path leads outside of the directory\n"},
		{"GET", "/%2e%2e/secret", "", 404, "not found\n"},
		{"PUT", "/notes", "x", 409, "the file cannot be written\n"},
	} {
		req, err := http.NewRequestWithContext(t.Context(), step.method, url+step.path, strings.NewReader(step.body))
		require.NoError(t, err)
		res, err := http.DefaultTransport.RoundTrip(req)
		require.NoError(t, err)
		text, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, step.status, res.StatusCode, "%s %s: %s", step.method, step.path, text)
		require.Equal(t, step.want, string(text), "%s %s", step.method, step.path)
	}
	require.NoError(t, server.Process.Signal(os.Interrupt))
	require.NoError(t, server.Wait())
}
