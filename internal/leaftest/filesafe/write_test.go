package filesafe_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/filesafe"
)

func TestWriteFile(t *testing.T) {
	for name, row := range map[string]struct{ name, where string }{
		"new":                          {"new.txt", "new.txt"},
		"new directories":              {"x/y/z.txt", "x/y/z.txt"},
		"there already":                {"a.txt", "a.txt"},
		"in a directory":               {"sub/b.txt", "sub/b.txt"},
		"absolute":                     {"$ROOT/sub/new.txt", "sub/new.txt"},
		"through a link":               {"link", "a.txt"},
		"through an absolute link":     {"abs", "a.txt"},
		"below a linked directory":     {"dirlink/new.txt", "sub/new.txt"},
		"below an absolute link":       {"absdir/x/new.txt", "sub/x/new.txt"},
		"through a broken link inside": {"broken", "nothing"},
		"through a broken link, dirs":  {"brokendir", "nothing/sub/x"},
		"up again":                     {"sub/../new.txt", "new.txt"},
		"name of full length":          {strings.Repeat("m", 255), strings.Repeat("m", 255)},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLayout(t)
			path := filepath.Join(l.root, row.where)
			before, _ := os.Lstat(path)
			require.NoError(t, l.dir.WriteFile(strings.Replace(row.name, "$ROOT", l.root, 1), []byte("written"), 0o640))
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, "written", string(data))
			after, err := os.Lstat(path)
			require.NoError(t, err)
			require.True(t, after.Mode().IsRegular())
			if before != nil {
				require.Equal(t, before.Mode(), after.Mode())
			} else {
				require.Equal(t, fs.FileMode(0o640), after.Mode())
			}
			found, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".filesafe-*"))
			require.NoError(t, err)
			require.Empty(t, found)
		})
	}
}

func TestWriteFileErrors(t *testing.T) {
	l := newLayout(t)
	for name, want := range map[string]error{
		"":                       filesafe.ErrNotFile,
		"sub":                    filesafe.ErrNotFile,
		"dirlink":                filesafe.ErrNotFile,
		"newdir/":                filesafe.ErrNotFile,
		"a.txt/x/y":              nil,
		"loop":                   nil,
		"nothing/../x":           fs.ErrNotExist,
		"x\x00":                  fs.ErrInvalid,
		"../x":                   filesafe.ErrOutside,
		"brokenout":              filesafe.ErrOutside,
		"brokenoutabs":           filesafe.ErrOutside,
		"outdir/new.txt":         filesafe.ErrOutside,
		"outdir/x/y/new.txt":     filesafe.ErrOutside,
		"/tmp/new.txt":           filesafe.ErrOutside,
		"sub/../../x":            filesafe.ErrOutside,
		strings.Repeat("n", 256): nil,
	} {
		err := l.dir.WriteFile(name, []byte("x"), 0o644)
		var path *fs.PathError
		require.ErrorAs(t, err, &path, name)
		require.Equal(t, name, path.Path)
		if want != nil {
			require.ErrorIs(t, err, want, name)
		}
	}
	found, err := os.ReadDir(filepath.Join(l.top, "outside"))
	require.NoError(t, err)
	require.Len(t, found, 5)
}

// TestWriteFileIsAtomic reads during writes: each reader gets one complete content.
func TestWriteFileIsAtomic(t *testing.T) {
	l := newLayout(t)
	require.NoError(t, os.Chmod(filepath.Join(l.root, "a.txt"), 0o766))
	contents := []string{strings.Repeat("a", 100_000), strings.Repeat("b", 50_000)}
	require.NoError(t, l.dir.WriteFile("a.txt", []byte(contents[0]), 0))
	var writers sync.WaitGroup
	for _, text := range contents {
		writers.Go(func() {
			for range 200 {
				if err := l.dir.WriteFile("link", []byte(text), 0o600); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 200 {
		data, err := fs.ReadFile(l.dir.FS(), "a.txt")
		require.NoError(t, err)
		require.Contains(t, contents, string(data))
	}
	writers.Wait()
	info, err := l.dir.Stat("a.txt")
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o766), info.Mode())
}

func TestResolve(t *testing.T) {
	l := newLayout(t)
	require.Equal(t, l.root, l.dir.Path())
	for name, want := range map[string]string{
		"": ".", ".": ".", "sub/..": ".", "absroot": ".", l.root: ".", "dirlink/up": "a.txt", "outback3/deep": "sub/deep",
		"sub//b.txt":            "sub/b.txt",
		l.top + "/outside/back": "a.txt", l.top + "/outside/rootlink/sub": "sub", "chain/40": "a.txt", "fifo": "fifo", "a.txt": "a.txt",
	} {
		got, err := l.dir.Resolve(name)
		require.NoError(t, err, name)
		require.Equal(t, want, got, name)
	}
	for name, want := range map[string]string{
		"broken": "nothing", "dirlink/new/x": "sub/new/x", "nothing/./x//y/": "nothing/x/y", "brokendir": "nothing/sub/x",
		"nothing/../x": "", "brokenmid": "", l.root + "/new": "new",
	} {
		got, err := l.dir.Resolve(name)
		require.ErrorIs(t, err, fs.ErrNotExist, name)
		require.Equal(t, want, got, name)
	}
	for name, want := range map[string]string{"a.txt/": "a.txt", "a.txt/x/y": "a.txt/x/y", "dirlink/up/x": "a.txt/x", "a.txt/../x": ""} {
		got, err := l.dir.Resolve(name)
		require.ErrorIs(t, err, syscall.ENOTDIR, name)
		require.Equal(t, want, got, name)
	}
	_, err := l.dir.Resolve("out")
	require.EqualError(t, err, "resolve out: path leads outside the directory")
	_, err = l.dir.Open("sub")
	require.EqualError(t, err, "open sub: not a regular file")
	_, err = l.dir.Open("nothing")
	require.EqualError(t, err, "open nothing: no such file or directory")
}

// TestWholeFileSystem opens the root directory, which contains everything.
func TestWholeFileSystem(t *testing.T) {
	l := newLayout(t)
	dir, err := filesafe.Open("/")
	require.NoError(t, err)
	defer dir.Close()
	for _, name := range []string{l.root + "/abs", l.root + "/out/../out",
		strings.TrimPrefix(l.root, "/") + "/outback3/deep/c.txt", "/.." + l.root + "/link"} {
		got, err := dir.Resolve(name)
		want, wantErr := filepath.EvalSymlinks("/" + name)
		if wantErr != nil {
			require.Error(t, err, name)
			continue
		}
		require.NoError(t, err, name)
		require.Equal(t, want, "/"+got)
		f, err := dir.Open(name)
		require.NoError(t, err, name)
		require.NoError(t, f.Close())
	}
	got, err := dir.Resolve("/")
	require.NoError(t, err)
	require.Equal(t, ".", got)
}

func TestFS(t *testing.T) {
	l := newLayout(t)
	require.NoError(t, fstest.TestFS(must(fs.Sub(l.dir.FS(), "deep")), "1/2/3/end.txt"))
	found, err := fs.Glob(l.dir.FS(), "absdir/*.txt")
	require.NoError(t, err)
	require.Equal(t, []string{"absdir/b.txt", "absdir/secret.txt"}, found)
	for name, want := range map[string]error{
		"out": filesafe.ErrOutside, "nothing": fs.ErrNotExist, "../outside": fs.ErrInvalid, "/etc": fs.ErrInvalid,
		"fifo": filesafe.ErrNotFile, "sub/": fs.ErrInvalid,
	} {
		_, err := l.dir.FS().Open(name)
		require.ErrorIs(t, err, want, name)
	}
	n := 0
	require.NoError(t, fs.WalkDir(l.dir.FS(), ".", func(_ string, _ fs.DirEntry, err error) error { n++; return err }))
	want := 0
	require.NoError(t, filepath.WalkDir(l.root, func(string, fs.DirEntry, error) error { want++; return nil }))
	require.Equal(t, want, n)
}

// A path that was resolved is written without links: one that has replaced a part of it since is an
// error.
func TestWriteResolved(t *testing.T) {
	l := newLayout(t)
	for _, path := range []string{"a.txt", "sub/b.txt", "new.txt", "x/y/z.txt"} {
		require.NoError(t, l.dir.WriteResolved(path, []byte("written"), 0o640))
		data, err := os.ReadFile(filepath.Join(l.root, path))
		require.NoError(t, err)
		require.Equal(t, "written", string(data))
	}
	for path, want := range map[string]error{
		"link": filesafe.ErrNotFile, "broken": filesafe.ErrNotFile, "out": filesafe.ErrNotFile, "sub": filesafe.ErrNotFile, ".": filesafe.ErrNotFile,
		"dirlink/b.txt": filesafe.ErrNotDirectory, "dirlink/new/x": filesafe.ErrNotDirectory, "self/a.txt": filesafe.ErrNotDirectory,
		"outdir/secret.txt": filesafe.ErrNotDirectory, "brokendir/x": filesafe.ErrNotDirectory, "a.txt/x": filesafe.ErrNotDirectory,
		"../x": filesafe.ErrOutside, "sub/../../x": filesafe.ErrOutside, l.root + "/a.txt": filesafe.ErrOutside, "": filesafe.ErrOutside,
		"x\x00": fs.ErrInvalid,
	} {
		require.ErrorIs(t, l.dir.WriteResolved(path, []byte("changed"), 0o640), want, path)
	}
	for _, path := range []string{"root/a.txt", "root/sub/b.txt", "outside/secret.txt"} {
		data, err := os.ReadFile(filepath.Join(l.top, path))
		require.NoError(t, err)
		require.NotEqual(t, "changed", string(data))
	}
}
