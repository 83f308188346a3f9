package filesafe_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/filesafe"
)

// swap renames copies of the files over name, one after the other, until the test ends.
func (l layout) swap(t *testing.T, name string, files ...string) {
	stop, stopped := make(chan struct{}), make(chan struct{})
	place := func(i int) error {
		// A second hard link to the same file can be renamed repeatedly.
		next := filepath.Join(l.top, "next")
		from, to := filepath.Join(l.top, files[i%len(files)]), filepath.Join(l.root, name)
		if info, err := os.Lstat(from); err == nil && info.IsDir() {
			// A directory has no hard links and cannot be renamed over a file.
			_ = os.Remove(to)
			defer func() { _ = os.Rename(to, from) }()
			return os.Rename(from, to)
		}
		if err := os.Link(from, next); err != nil {
			return err
		}
		return os.Rename(next, to)
	}
	require.NoError(t, place(0))
	go func() {
		defer close(stopped)
		for i := 1; ; i++ {
			select {
			case <-stop:
				return
			default:
				if err := place(i); err != nil {
					t.Errorf("swap: %v", err)
					return
				}
			}
		}
	}()
	t.Cleanup(func() { close(stop); <-stopped })
}

// checkThenOpen is a guard without os.Root.
func checkThenOpen(root, name string) string {
	resolved, err := filepath.EvalSymlinks(filepath.Join(root, name))
	if err != nil || !strings.HasPrefix(resolved, root+"/") {
		return ""
	}
	f, err := os.OpenFile(filepath.Join(root, name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	data, _ := io.ReadAll(f)
	return string(data)
}

// TestSwappedLinks replaces the target of a path during requests. The same load obtains the secret
// from a guard that checks first and then opens.
func TestSwappedLinks(t *testing.T) {
	for name, row := range map[string]struct {
		path  string
		files []string
	}{
		"file and link":              {"x", []string{"root/a.txt", "root/out"}},
		"link in and link out":       {"x", []string{"root/abs", "root/out"}},
		"absolute links":             {"x", []string{"root/abs", "root/outabs"}},
		"file, link, FIFO":           {"x", []string{"root/a.txt", "root/out", "root/fifo"}},
		"links to directories":       {"x/secret.txt", []string{"root/dirlink", "root/outdir"}},
		"absolute, to directories":   {"x/secret.txt", []string{"root/absdir", "root/outdirabs"}},
		"out and in again, and out":  {"x", []string{"root/outback", "root/out"}},
		"a link that a link goes to": {"y", []string{"root/abs", "root/out"}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLayout(t)
			l.link(t, "root/y", "x")
			l.swap(t, "x", row.files...)
			deadline := time.Now().Add(time.Minute)
			for checkThenOpen(l.root, row.path) != secret {
				require.True(t, time.Now().Before(deadline), "no attack: a naive guard holds")
			}
			api := &filesafe.Handlers{Dir: l.dir}
			statuses := map[int]int{}
			for i := 0; i < 100 || len(statuses) < 2; i++ {
				require.Less(t, i, 10_000, "both sides are seen: %v", statuses)
				w := httptest.NewRecorder()
				api.Content(w, httptest.NewRequest(http.MethodGet, "/?path="+row.path, nil))
				require.NotContains(t, w.Body.String(), secret)
				require.NotEqual(t, 500, w.Code, w.Body.String())
				statuses[w.Code]++
				if i%10 > 0 {
					continue
				}
				w = httptest.NewRecorder()
				api.List(w, httptest.NewRequest(http.MethodGet, "/", nil))
				require.Equal(t, 200, w.Code)
				require.NotContains(t, w.Body.String(), `"target":".."`)
			}
			require.Len(t, statuses, 2, statuses)
			require.Positive(t, statuses[200])
		})
	}
}

// TestSwappedDirectories replaces a directory below a listing with links and FIFOs.
func TestSwappedDirectories(t *testing.T) {
	l := newLayout(t)
	l.write(t, "tree/in/file.txt", "x")
	l.write(t, "outside/dir/deep/hidden.txt", secret)
	l.link(t, "root/outdeep", "../outside/dir")
	l.swap(t, "x", "tree", "root/outdeep", "tree", "root/fifo")
	api := &filesafe.Handlers{Dir: l.dir}
	seen := 0
	for i := 0; i < 50 || seen == 0; i++ {
		require.Less(t, i, 10_000, "the directory is seen")
		w := httptest.NewRecorder()
		api.List(w, httptest.NewRequest(http.MethodGet, "/?recursive=true", nil))
		require.Equal(t, 200, w.Code)
		require.NotContains(t, w.Body.String(), "hidden.txt")
		if strings.Contains(w.Body.String(), "x/in/file.txt") {
			seen++
		}
		w = httptest.NewRecorder()
		api.List(w, httptest.NewRequest(http.MethodGet, "/?path=x/deep", nil))
		require.NotContains(t, w.Body.String(), "hidden.txt")
		require.NotEqual(t, 500, w.Code, w.Body.String())
	}
}

// TestSpecialFilesAreNotOpened has a writer that waits at a FIFO. It would continue if the FIFO
// were opened.
func TestSpecialFilesAreNotOpened(t *testing.T) {
	l := newLayout(t)
	c := l.serve(t)
	require.NoError(t, syscall.Mknod(filepath.Join(l.root, "zero"), syscall.S_IFCHR|0o666, 1<<8|5))
	require.NoError(t, syscall.Mknod(filepath.Join(l.root, "disk"), syscall.S_IFBLK|0o666, 250<<8))
	fifo := filepath.Join(l.root, "fifo")
	opened := make(chan error, 1)
	go func() {
		f, err := os.OpenFile(fifo, os.O_WRONLY, 0)
		if err == nil {
			err = f.Close()
		}
		opened <- err
	}()
	for _, name := range []string{"fifo", "tofifo", "socket", "zero", "disk"} {
		require.Equal(t, 400, c.content(name).status)
		require.Equal(t, 400, c.list("path="+name).status)
		require.ErrorIs(t, l.dir.WriteFile(name, []byte("x"), 0o644), filesafe.ErrNotFile)
		require.ErrorIs(t, l.dir.WriteFile(name+"/x", []byte("x"), 0o644), syscall.ENOTDIR)
		_, err := l.dir.FS().Open(name)
		require.ErrorIs(t, err, filesafe.ErrNotFile)
		info, err := l.dir.Stat(name)
		require.NoError(t, err)
		require.False(t, info.Mode().IsRegular())
	}
	lines := c.list("recursive=true").listing(t).lines()
	require.Contains(t, lines, "zero other 0")
	require.Contains(t, lines, "disk other 0")
	select {
	case err := <-opened:
		require.Fail(t, "the FIFO was opened", "%v", err)
	default:
	}
	f, err := os.OpenFile(fifo, os.O_RDONLY, 0)
	require.NoError(t, err)
	require.NoError(t, <-opened)
	require.NoError(t, f.Close())
}
