package builtin_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWrite(t *testing.T) {
	for name, row := range map[string]struct{ path, content, want string }{
		"a new file":           {"new", "one\ntwo\n", "Created new (8 bytes, 2 lines)."},
		"no final line end":    {"new", "one\ntwo", "Created new (7 bytes, 2 lines)."},
		"one line":             {"new", "x", "Created new (1 byte, 1 line)."},
		"nothing":              {"new", "", "Created new (0 bytes, 0 lines)."},
		"a file that is there": {"old", "\r\n", "Updated old (2 bytes, 1 line)."},
		"missing directories":  {"a/b/c", "日本", "Created a/b/c (6 bytes, 1 line)."},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			b.put(t, "old", "as it was")
			require.Equal(t, row.want, b.ok(t, "Write", in{"file_path": row.path, "content": row.content}))
			require.Equal(t, row.content, b.content(t, row.path))
			left, err := filepath.Glob(filepath.Join(b.dir, ".filesafe-*"))
			require.NoError(t, err)
			require.Empty(t, left)
		})
	}
}

func TestWritePreservesTheMode(t *testing.T) {
	b := setup(t)
	b.put(t, "script", "old")
	require.NoError(t, os.Chmod(filepath.Join(b.dir, "script"), 0o750))
	b.ok(t, "Write", in{"file_path": "script", "content": "new"})
	b.ok(t, "Edit", in{"file_path": "script", "old_string": "new", "new_string": "newer"})
	info, err := os.Stat(filepath.Join(b.dir, "script"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o750), info.Mode().Perm())
	require.Equal(t, "newer", b.content(t, "script"))
}

func TestWriteRejects(t *testing.T) {
	b := setup(t)
	b.put(t, "dir/f", "as it was")
	b.link(t, "dir/f", "link")
	b.link(t, "not yet", "later")
	for path, want := range map[string]string{
		"dir":     "dir is a directory: use Glob to list it",
		"":        "is a directory: use Glob to list it",
		"new/":    "new/ is not a regular file",
		"link":    "link leads through a link to dir/f: use that path",
		"later":   "later leads through a link to not yet: use that path",
		"dir/f/g": "dir/f/g or a part of it is not a directory",
	} {
		require.Contains(t, b.fails(t, "Write", in{"file_path": path, "content": "x"}), want)
	}
	require.Equal(t, "as it was", b.content(t, "dir/f"))
}
