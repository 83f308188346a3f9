// Package examples_test runs the examples like a reader.
package examples_test

import (
	"os"
	"os/exec"
	"path/filepath"
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
	t.Run("approve", func(t *testing.T) {
		out, err := exec.CommandContext(t.Context(), filepath.Join(bin, "approve")).Output()
		require.NoError(t, err)
		require.Contains(t, string(out), "clerk wants to pay 250 cents to Ada: true\nthe model receives: Ada got 250 cents\n")
		require.Contains(t, string(out), "Bob: false\nthe model receives: Permission to use pay was denied")
		require.Contains(t, string(out), "\npaid in all: 250\n")
	})
	t.Run("embed and client", func(t *testing.T) {
		host := exec.CommandContext(t.Context(), filepath.Join(bin, "embed"), "-addr", "127.0.0.1:0")
		host.Env = []string{} // no key, so that it hosts the demo model
		url := listening(t, host)
		out, err := exec.CommandContext(t.Context(), filepath.Join(bin, "client"), "-url", url, "-agent", "writer", "Hello!").CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), "You wrote: Hello!\nsuccess after 1 turns")

		require.NoError(t, host.Process.Signal(os.Interrupt))
		require.NoError(t, host.Wait(), "it drains and ends")
	})
	t.Run("hub", func(t *testing.T) { deployItself(t, filepath.Join(bin, "hub")) })
}
