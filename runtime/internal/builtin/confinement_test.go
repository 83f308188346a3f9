package builtin_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// fileTools are the tools that take a path, with an input for a path.
var fileTools = map[string]func(path string) in{
	"Read":  func(path string) in { return in{"file_path": path} },
	"Write": func(path string) in { return in{"file_path": path, "content": "changed"} },
	"Edit":  func(path string) in { return in{"file_path": path, "old_string": "secret", "new_string": "changed"} },
	"Glob":  func(path string) in { return in{"pattern": "**", "path": path} },
	"Grep":  func(path string) in { return in{"pattern": "secret", "path": path} },
}

func TestNoToolLeavesTheDirectory(t *testing.T) {
	const secret = "the secret"
	for name, path := range map[string]func(b box) string{
		"absolute":                  func(b box) string { return filepath.Join(b.outside, "f") },
		"absolute, a directory":     func(b box) string { return b.outside },
		"absolute, nothing there":   func(b box) string { return filepath.Join(b.outside, "nothing") },
		"the root":                  func(box) string { return "/" },
		"the directory above":       func(box) string { return ".." },
		"..":                        func(box) string { return "../outside/f" },
		".. in the middle":          func(box) string { return "dir/../../outside/f" },
		"..  to nothing":            func(box) string { return "../nothing" },
		"absolute with ..":          func(b box) string { return b.dir + "/../outside/f" },
		"a name that begins as cwd": func(b box) string { return b.dir + "side/f" },
		"a link to a file":          func(box) string { return "file" },
		"a link through a link":     func(box) string { return "two" },
		"a link to a directory":     func(box) string { return "tree/f" },
		"a relative link":           func(box) string { return "up/outside/f" },
		"a link to nothing":         func(box) string { return "broken" },
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			b.put(t, "dir/f", "inside")
			require.NoError(t, os.WriteFile(filepath.Join(b.outside, "f"), []byte(secret), 0o600))
			b.link(t, filepath.Join(b.outside, "f"), "file")
			b.link(t, "file", "two")
			b.link(t, b.outside, "tree")
			b.link(t, "..", "up")
			b.link(t, filepath.Join(b.outside, "nothing"), "broken")
			path := path(b)
			for name, input := range fileTools {
				require.Equal(t, path+" is outside the working directory "+b.dir+": use a path in it",
					b.fails(t, name, input(path)), name)
			}
			data, err := os.ReadFile(filepath.Join(b.outside, "f"))
			require.NoError(t, err)
			require.Equal(t, secret, string(data))
			entries, err := os.ReadDir(b.outside)
			require.NoError(t, err)
			require.Len(t, entries, 1)
			require.Equal(t, "No matches found.", b.ok(t, "Grep", in{"pattern": "secret"}))
			require.Equal(t, "dir/f\n", b.ok(t, "Glob", in{"pattern": "**"}))
		})
	}
}

func TestPathsThatStayInside(t *testing.T) {
	for name, path := range map[string]func(b box) string{
		"relative":                      func(box) string { return "dir/f" },
		"with a dot":                    func(box) string { return "./dir/./f" },
		"absolute":                      func(b box) string { return b.dir + "/dir/f" },
		".. that stays inside":          func(box) string { return "dir/../dir/f" },
		"out and in again":              func(box) string { return "../work/dir/f" },
		"a link":                        func(box) string { return "link" },
		"an absolute link":              func(box) string { return "absolute" },
		"through a link to a directory": func(box) string { return "tree/f" },
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			b.put(t, "dir/f", "secret\n")
			b.link(t, "dir/f", "link")
			b.link(t, b.dir+"/dir/f", "absolute")
			b.link(t, "dir", "tree")
			path := path(b)
			require.Equal(t, "     1\tsecret\n", b.ok(t, "Read", fileTools["Read"](path)))
			require.Equal(t, "dir/f\n", b.ok(t, "Grep", fileTools["Grep"](path)))
			if strings.Contains(name, "link") { // package permission replaces it by the path that it has judged
				require.Contains(t, b.fails(t, "Edit", fileTools["Edit"](path)), path+" leads through a link to dir/f: use that path")
				require.Contains(t, b.fails(t, "Write", fileTools["Write"](path)), path+" leads through a link to dir/f: use that path")
				require.Equal(t, "secret\n", b.content(t, "dir/f"))
				return
			}
			require.Contains(t, b.ok(t, "Edit", fileTools["Edit"](path)), "     1\tchanged\n")
			require.Equal(t, "changed\n", b.content(t, "dir/f"))
			require.Contains(t, b.ok(t, "Write", fileTools["Write"](path)), "Updated")
			require.Equal(t, "changed", b.content(t, "dir/f"))
			require.Contains(t, b.fails(t, "Glob", in{"pattern": "*", "path": path}), "is a file: set path to a directory")
		})
	}
}

// While a directory in the path is repeatedly replaced by a link that leads outside, no tool
// returns the content of a file outside or changes it.
func TestDirectoryReplacedDuringCalls(t *testing.T) {
	b := setup(t)
	require.NoError(t, os.WriteFile(filepath.Join(b.outside, "f"), []byte("the secret\n"), 0o600))
	b.put(t, "real/f", "secret-less\n")
	b.link(t, b.outside, "way-out")
	at := filepath.Join(b.dir, "dir")
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			_ = os.Remove(at)
			_ = os.Symlink([]string{"real", b.outside}[i%2], at)
		}
	}()
	for range 300 {
		for _, name := range []string{"Read", "Grep", "Write"} {
			input := fileTools[name]("dir/f")
			if name == "Grep" {
				input = in{"pattern": "", "path": "dir", "output_mode": "content"}
			}
			res, err := b.call(t.Context(), t, name, input)
			require.NotContains(t, res.Output, "the secret")
			if err != nil {
				require.NotContains(t, err.Error(), b.outside)
			}
		}
	}
	close(stop)
	<-stopped
	data, err := os.ReadFile(filepath.Join(b.outside, "f"))
	require.NoError(t, err)
	require.Equal(t, "the secret\n", string(data))
}

func TestIrregularFiles(t *testing.T) {
	b := setup(t)
	require.NoError(t, syscall.Mkfifo(filepath.Join(b.dir, "fifo"), 0o600))
	for name, input := range fileTools {
		require.Equal(t, "fifo is not a regular file", b.fails(t, name, input("fifo")), name)
	}
	require.Equal(t, "No files found.", b.ok(t, "Glob", in{"pattern": "**"}))
	require.Equal(t, "No matches found.", b.ok(t, "Grep", in{"pattern": ""}))
}

func TestNullByteInPath(t *testing.T) {
	b := setup(t)
	for name, input := range fileTools {
		require.Equal(t, "the path contains a null byte", b.fails(t, name, input("a\x00b")), name)
	}
}

func TestLinkLoops(t *testing.T) {
	b := setup(t)
	b.link(t, "b", "a")
	b.link(t, "a", "b")
	for name, input := range fileTools {
		require.Contains(t, b.fails(t, name, input("a")), "a: ", name)
	}
	require.Equal(t, "No files found.", b.ok(t, "Glob", in{"pattern": "**"}))
}

func TestPathsAreOnOneLine(t *testing.T) {
	b := setup(t)
	b.put(t, "a\nb", "x\n")
	b.put(t, "\xff\xfe/c", "x\n")
	require.ElementsMatch(t, []string{`"a\nb"`, "\uFFFD/c"}, strings.Fields(b.ok(t, "Glob", in{"pattern": "**"})))
	require.ElementsMatch(t, []string{`"a\nb":1:x`, "\uFFFD/c:1:x"},
		strings.Fields(b.ok(t, "Grep", in{"pattern": "x", "output_mode": "content"})))
}
