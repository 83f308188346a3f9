package filesafe_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/filesafe"
)

// classes are the meanings of errors, most specific first. The largest number of links in a path
// differs.
var classes = []error{fs.ErrNotExist, fs.ErrPermission, syscall.ENOTDIR, syscall.ENAMETOOLONG, filesafe.ErrOutside,
	filesafe.ErrNotFile}

func class(err error) error {
	for _, c := range classes {
		if errors.Is(err, c) {
			return c
		}
	}
	if err != nil && (errors.Is(err, syscall.ELOOP) || strings.Contains(err.Error(), "too many symbolic links")) {
		return syscall.ELOOP
	}
	return err
}

// reference returns the content that the operating system finds at a path below root, and reports
// whether it is inside.
func (l layout) reference(name string) (text string, inside bool, err error) {
	path := l.root + "/" + name
	if filepath.IsAbs(name) {
		path = name
	}
	resolved, err := filepath.EvalSymlinks(path)
	if err == nil {
		inside = resolved == l.root || strings.HasPrefix(resolved, l.root+"/")
	}
	info, err := os.Stat(path)
	for tries := 0; errors.Is(err, syscall.ELOOP) && tries < 10; tries++ {
		info, err = os.Stat(path) // Linux counts the links of a lookup that it begins again twice
	}
	if err != nil {
		return "", inside, err
	}
	if !info.Mode().IsRegular() {
		return "", inside, filesafe.ErrNotFile
	}
	data, err := os.ReadFile(path)
	return string(data), inside, err
}

// TestOpenAgreesWithTheSystem compares filesafe and os for each name of the layout with each
// ending.
func TestOpenAgreesWithTheSystem(t *testing.T) {
	l := newLayout(t)
	names := []string{"", ".", "..", "../root/a.txt", "../outside/secret.txt", "nothing", "nothing/x", "./a.txt",
		"sub//b.txt", "sub/./b.txt",
		"sub/../a.txt", "sub/../../outside/secret.txt", "dirlink/../a.txt", "absdir/../a.txt", "sub/deep/../../../root/a.txt", l.root,
		l.root + "/a.txt", l.root + "/sub/../a.txt", l.top + "/outside/secret.txt", l.top + "/outside/back", "/etc/passwd", "/",
		l.top, l.top + "/rootlike/secret.txt", strings.Repeat("n", 256)}
	require.NoError(t, filepath.WalkDir(l.root, func(path string, _ fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(l.root, path)
		names = append(names, rel)
		return err
	}))
	agreed, refused := 0, 0
	for _, name := range names {
		for _, ending := range []string{"", "/", "/.", "/..", "/a.txt", "/b.txt", "/../a.txt", "/secret.txt",
			"/outside/secret.txt", "/nothing"} {
			name := name + ending
			text, inside, want := l.reference(name)
			got, err := l.dir.Open(name)
			if err == nil {
				data, err := os.ReadFile(filepath.Join(l.root, must(l.dir.Resolve(name))))
				require.NoError(t, err)
				read := make([]byte, 100)
				n, _ := got.Read(read)
				require.NoError(t, got.Close())
				require.True(t, inside, name)
				require.Equal(t, text, string(read[:n]), name)
				require.Equal(t, text, string(data), name)
				agreed++
			} else if errors.Is(err, filesafe.ErrOutside) {
				require.False(t, inside, name)
				refused++
				continue
			}
			require.Equal(t, class(want), class(err), "%q: %v, %v", name, want, err)
			if info, err := l.dir.Stat(name); want == nil {
				require.NoError(t, err, name)
				require.EqualValues(t, len(text), info.Size())
			}
		}
	}
	require.Greater(t, agreed, 80)
	require.Greater(t, refused, 150)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestAttacks reads the secret by each path without the guard, to prove that each path is an
// attack.
func TestAttacks(t *testing.T) {
	l := newLayout(t)
	c := l.serve(t)
	plain := newClient(t, l.dir.Handler())
	for name, path := range map[string]string{
		"traversal":                        "../outside/secret.txt",
		"traversal from a directory":       "sub/../../outside/secret.txt",
		"traversal to the top":             strings.Repeat("../", 40) + "proc/self/root" + l.top + "/outside/secret.txt",
		"traversal by doubled slashes":     "..//outside//secret.txt",
		"traversal with dots":              "./.././outside/./secret.txt",
		"neighbor with the same beginning": "../rootlike/secret.txt",
		"absolute":                         l.top + "/outside/secret.txt",
		"absolute, two slashes":            "/" + l.top + "/outside/secret.txt",
		"absolute through the directory":   l.root + "/../outside/secret.txt",
		"link":                             "out",
		"absolute link":                    "outabs",
		"link to a directory":              "outdir/secret.txt",
		"absolute link to a directory":     "outdirabs/dir/secret.txt",
		"link to a link":                   "outvia",
		"link to the parent":               "outparent/outside/secret.txt",
		"link to the root of all":          "outslash" + l.top + "/outside/secret.txt",
		"link through a directory and up":  "outdots",
		"link out, in and out":             "outback-out",
		"link below a directory":           "sub/out",
		"link below a linked directory":    "dirlink/out",
		"link through proc":                "proc",
		"link to the same beginning":       "outlike",
		"loop of directories":              strings.Repeat("self/", 20) + "out",
	} {
		t.Run(name, func(t *testing.T) {
			full := l.root + "/" + path
			if filepath.IsAbs(path) {
				full = path
			}
			data, err := os.ReadFile(full)
			require.NoError(t, err)
			require.Equal(t, secret, string(data), "no attack")

			_, err = l.dir.Open(path)
			require.ErrorIs(t, err, filesafe.ErrOutside)
			_, err = l.dir.Stat(path)
			require.ErrorIs(t, err, filesafe.ErrOutside)
			_, err = l.dir.Resolve(path)
			require.ErrorIs(t, err, filesafe.ErrOutside)
			require.ErrorIs(t, l.dir.WriteFile(path, nil, 0o644), filesafe.ErrOutside)
			for _, err := range l.dir.List(t.Context(), path) {
				require.ErrorIs(t, err, filesafe.ErrOutside)
			}
			got := c.content(path)
			require.Equal(t, 400, got.status)
			require.JSONEq(t, `{"error":"Invalid path"}`, got.body)
			got = plain.ask("GET", "/"+strings.ReplaceAll(path, "..", "%2e%2e"))
			require.Equal(t, 404, got.status, got.body)
		})
	}
	// Directories are checked through the listing.
	for _, path := range []string{"../outside", "sub/../../outside", l.top + "/outside", "outdir", "outdirabs", "outdir/dir",
		"outparent", "outslash"} {
		full := l.root + "/" + path
		if filepath.IsAbs(path) {
			full = path
		}
		found, err := os.ReadDir(full)
		require.NoError(t, err)
		require.NotEmpty(t, found)
		for _, query := range []string{"", "&recursive=true"} {
			got := c.list("path=" + path + query)
			require.Equal(t, 400, got.status)
			require.JSONEq(t, `{"error":"Invalid path"}`, got.body)
		}
	}
	data, err := os.ReadFile(l.top + "/outside/secret.txt")
	require.NoError(t, err)
	require.Equal(t, secret, string(data))
}
