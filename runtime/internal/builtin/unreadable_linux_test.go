package builtin_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/usertest"
	"github.com/seed93082962/agenthost/runtime/tool"
)

func TestUnreadable(t *testing.T) {
	b := setup(t)
	b.put(t, "dir/open", "secret\n")
	b.put(t, "dir/closed", "secret\n")
	b.put(t, "dir/locked/f", "secret\n")
	usertest.Enterable(t, b.dir)
	for path, mode := range map[string]os.FileMode{"dir/open": 0o644, "dir/closed": 0, "dir/locked": 0} {
		require.NoError(t, os.Chmod(filepath.Join(b.dir, path), mode))
	}
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(b.dir, "dir", "locked"), 0o700) })
	type answer struct {
		res tool.Result
		err error
	}
	inputs := map[string]string{
		"Read dir/closed":   `{"file_path":"dir/closed"}`,
		"Read dir/locked/f": `{"file_path":"dir/locked/f"}`,
		"Edit dir/closed":   `{"file_path":"dir/closed","old_string":"a","new_string":"b"}`,
		"Edit dir/open":     `{"file_path":"dir/open","old_string":"secret","new_string":"b"}`,
		"Write dir/closed":  `{"file_path":"dir/closed","content":"b"}`,
		"Grep dir/closed":   `{"pattern":"secret","path":"dir/closed"}`,
		"Grep dir/locked":   `{"pattern":"secret","path":"dir/locked"}`,
		"Glob dir/locked":   `{"pattern":"*","path":"dir/locked"}`,
		"Grep dir":          `{"pattern":"secret","path":"dir"}`,
		"Glob dir":          `{"pattern":"**","path":"dir"}`,
	}
	got := map[string]answer{}
	usertest.AsUnprivileged(t, func() {
		for name, input := range inputs {
			use, _, _ := strings.Cut(name, " ")
			res, err := b.tools[use].Call(t.Context(), tool.Call{Input: []byte(input)})
			got[name] = answer{res, err}
		}
	})
	for name, one := range got {
		switch name {
		case "Grep dir":
			require.NoError(t, one.err)
			require.Equal(t, "dir/open\n", one.res.Output)
		case "Glob dir":
			require.NoError(t, one.err)
			require.ElementsMatch(t, []string{"dir/closed", "dir/open"}, strings.Fields(one.res.Output))
		default:
			require.ErrorContains(t, one.err, ": the file permissions do not allow this", name)
		}
	}
	require.Equal(t, "secret\n", b.content(t, "dir/open"))
}
