//go:build unix

package child_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/child"
)

func TestLookPath(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	for path, mode := range map[string]os.FileMode{
		filepath.Join(first, "plain"):  0o644, // not executable: skipped
		filepath.Join(second, "plain"): 0o755,
		filepath.Join(second, "tool"):  0o755,
	} {
		require.NoError(t, os.WriteFile(path, nil, mode))
	}
	require.NoError(t, os.Mkdir(filepath.Join(first, "tool"), 0o755))
	both := "PATH=" + first + string(filepath.ListSeparator) + second
	t.Chdir(second)
	for _, row := range []struct {
		name, look string
		env        []string
		want       string // empty: not found
	}{
		{"in the second directory", "tool", []string{both}, filepath.Join(second, "tool")},
		{"not an executable", "plain", []string{both}, filepath.Join(second, "plain")},
		{"the last PATH counts", "tool", []string{both, "PATH=" + first}, ""},
		{"a path", "./bin/tool", nil, "./bin/tool"},
		{"no PATH", "tool", []string{"HOME=/"}, ""},
		{"relative directories", "tool", []string{"PATH=.::" + filepath.Base(second)}, ""},
		{"no name", "", []string{both}, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			got, err := child.LookPath(row.look, row.env)
			require.Equal(t, row.want, got)
			if row.want == "" {
				require.ErrorIs(t, err, exec.ErrNotFound)
			}
		})
	}
}
