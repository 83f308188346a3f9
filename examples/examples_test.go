// Package examples_test runs the examples like a reader.
package examples_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/db/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// build builds all examples and returns the directory of the binaries.
func build(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s -w", "-o", dir, "./...")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return dir
}

func TestExamples(t *testing.T) {
	bin := build(t)
	t.Run("tool", func(t *testing.T) {
		out, err := exec.CommandContext(t.Context(), filepath.Join(bin, "tool")).Output()
		require.NoError(t, err)
		require.Equal(t, "I call the tool word_count.\n[word_count: 3 words]\nword_count returned: 3 words\nsuccess after 2 turns\n", string(out))
	})
	t.Run("typescript", func(t *testing.T) {
		cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "typescript"))
		cmd.Dir = ".."
		out, err := cmd.Output()
		require.NoError(t, err)
		require.Equal(t, "word_count {\"words\":3}\n", string(out))
	})
	t.Run("packages", func(t *testing.T) { usePackages(t, bin) })
	t.Run("model", func(t *testing.T) {
		out, err := exec.CommandContext(t.Context(), filepath.Join(bin, "model")).Output()
		require.NoError(t, err)
		require.Equal(t, "HELLO FROM A MODEL IN GO \nsuccess after 1 turns\n", string(out))
	})
	t.Run("embed, client and approve", func(t *testing.T) {
		host := exec.CommandContext(t.Context(), filepath.Join(bin, "embed"), "-addr", "127.0.0.1:0")
		host.Env = []string{} // no key, so that it hosts the demo model
		url := listening(t, host)
		out, err := exec.CommandContext(t.Context(), filepath.Join(bin, "client"), "-url", url, "-agent", "writer", "Hello!").CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), "You wrote: Hello!\nsuccess after 1 turns")

		for decision, want := range map[string]string{"y": "127.0.0.1", "n": "The user rejected this call"} {
			approve := exec.CommandContext(t.Context(), filepath.Join(bin, "approve"), "-url", url, "-agent", "writer", `/tool WebFetch {"url":"http://127.0.0.1/\"\\\u202e\u00a0\u3000"}`)
			approve.Stdin = strings.NewReader(decision + "\n")
			out, err := approve.CombinedOutput()
			require.NoError(t, err, "%s", out)
			require.Contains(t, string(out), "It runs:\n  http://127.0.0.1/\"\\<U+202E><U+00A0><U+3000>\nRun it? (y/n) ")
			require.Contains(t, string(out), want)
		}

		require.NoError(t, host.Process.Signal(os.Interrupt))
		require.NoError(t, host.Wait(), "it drains and ends")
	})
	t.Run("hub", func(t *testing.T) { deployItself(t, filepath.Join(bin, "hub")) })
}
