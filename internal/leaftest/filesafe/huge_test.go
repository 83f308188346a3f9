package filesafe_test

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/filesafe"
)

// fill creates n names of empty files in a directory that has some of them, in no particular order.
// Most are hard links, which a file system creates and removes faster than files; it permits about
// 65,000 of one file.
func fill(t *testing.T, dir string, some, n int) {
	require.NoError(t, os.MkdirAll(dir, 0o755))
	first := ""
	for i := range n - some {
		name := filepath.Join(dir, fmt.Sprintf("a-file-with-some-name-%07d", some+i*7919%(n-some)))
		if i%10_000 == 0 {
			require.NoError(t, os.WriteFile(name, nil, 0o644))
			first = name
			continue
		}
		require.NoError(t, os.Link(first, name))
	}
}

// heap returns the number of live bytes.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// most returns the largest number of bytes held during a listing, which must have the given number
// of entries in order.
func most(t *testing.T, entries iter.Seq2[filesafe.FileEntry, error], want int) uint64 {
	before := heap()
	n, files, last, most := 0, 0, "", uint64(0)
	for e, err := range entries {
		require.NoError(t, err)
		if e.Type == "file" {
			if files++; files == 1 {
				last = ""
			}
		}
		if e.Name <= last {
			require.Less(t, last, e.Name)
		}
		last = e.Name
		if n++; n%10_000 == 0 {
			if now := heap(); now > before { // earlier garbage may be collected
				most = max(most, now-before)
			}
		}
	}
	require.Equal(t, want, n)
	return most
}

// TestHugeTree lists more entries than a listing holds in memory: in one directory, and in
// directories on several levels whose names do not fit together. More entries need no more
// memory.
func TestHugeTree(t *testing.T) {
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		t.Setenv("TMPDIR", "/dev/shm") // a disk takes ten times as long to create and remove the names
	}
	l := newLayout(t)
	const top, more, below = 70_000, 30_000, 1000
	huge := filepath.Join(l.root, "huge")
	fill(t, filepath.Join(huge, "A"), 0, below) // sorts before all others
	require.NoError(t, os.Mkdir(filepath.Join(huge, "z"), 0o755))
	// 65,536 names take 6 MB; the limit is three times that. os.ReadDir of 120,000 entries takes over
	// 40 MB.
	const limit = 20 << 20
	fill(t, huge, 0, top)
	flat := most(t, l.dir.List(t.Context(), "huge"), top+2)
	require.Less(t, flat, uint64(limit))
	fill(t, huge, top, top+more)
	larger := most(t, l.dir.List(t.Context(), "huge"), top+more+2)
	tree := most(t, l.dir.Walk(t.Context(), "huge", -1), top+more+below+2)
	t.Logf("at most %d KiB of %d entries, %d KiB of %d, with those below %d KiB", flat>>10, top, larger>>10, top+more, tree>>10)
	require.Less(t, larger, flat+flat/4, "it grows less than the directory, which has 1.4 times as many entries")
	require.Less(t, tree, flat+flat/4, "it grows less than the tree")
	t.Run("stopped by the caller", func(t *testing.T) {
		before, n := openFiles(t), 0
		for _, err := range l.dir.Walk(t.Context(), "huge", -1) {
			require.NoError(t, err)
			if n++; n == 3 {
				break
			}
		}
		require.Equal(t, 3, n)
		require.LessOrEqual(t, openFiles(t), before)
	})
	t.Run("stopped by its context", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		n := 0
		var last error
		for _, err := range l.dir.Walk(ctx, "huge", -1) {
			if n++; n == 10 {
				cancel(os.ErrDeadlineExceeded)
			}
			last = err
		}
		require.ErrorIs(t, last, os.ErrDeadlineExceeded)
		require.Less(t, n, 100)
	})
	t.Run("client leaves", func(t *testing.T) {
		api := &filesafe.Handlers{Dir: l.dir}
		written, ended := &atomic.Int64{}, make(chan any, 1)
		c := newClient(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer func() { ended <- recover() }()
			api.List(&counter{w, written}, r)
		}))
		c.server.Config.ErrorLog = nil
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.server.URL+"/?path=huge&recursive=true", nil)
		require.NoError(t, err)
		res, err := c.server.Client().Do(req)
		require.NoError(t, err)
		_, err = res.Body.Read(make([]byte, 1000))
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, http.ErrAbortHandler, <-ended)
		const entry = len(`{"name":"a-file-with-some-name-0000000","type":"file"}`)
		require.Less(t, written.Load(), int64((top+more)*entry/2), "bytes of half of the response")
	})
}

// TestHugeLevels lists a tree whose last path leads through many directories, of which all other
// entries have been listed: they are not in memory any longer.
func TestHugeLevels(t *testing.T) {
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		t.Setenv("TMPDIR", "/dev/shm")
	}
	l := newLayout(t)
	const levels, each = 16, 10_000
	at := filepath.Join(l.root, "huge")
	for range levels {
		fill(t, at, 0, each)
		at = filepath.Join(at, "z")
	}
	held := most(t, l.dir.Walk(t.Context(), "huge", -1), levels*each+levels-1)
	t.Logf("at most %d KiB", held>>10)
	require.Less(t, held, uint64(10<<20))
}

// counter counts the bytes of a body.
type counter struct {
	http.ResponseWriter
	written *atomic.Int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p)
	c.written.Add(int64(n))
	return n, err
}

// TestDeepTree has more levels than a listing keeps open directories, and paths longer than the
// longest path, which are not listed.
func TestDeepTree(t *testing.T) {
	l := newLayout(t)
	const depth = 300
	const name = "dddddddddddddddddddddddddddddd"
	at, err := os.OpenRoot(filepath.Join(l.root, "deep"))
	require.NoError(t, err)
	for range depth {
		require.NoError(t, at.Mkdir(name, 0o755))
		require.NoError(t, at.WriteFile("z", nil, 0o644))
		next, err := at.OpenRoot(name)
		require.NoError(t, err)
		require.NoError(t, at.Close())
		at = next
	}
	require.NoError(t, at.Close())
	before := openFiles(t)
	most := 0
	var names []string
	for e, err := range l.dir.Walk(t.Context(), "deep", -1) {
		require.NoError(t, err)
		names = append(names, e.Name)
		most = max(most, openFiles(t)-before)
	}
	require.Less(t, most, 64)
	require.LessOrEqual(t, openFiles(t), before)
	const entered = (4096 - len("deep/")) / (len(name) + 1) // directories whose files have paths that are short enough
	require.Len(t, names, entered+1+entered+1+4)
	require.True(t, slices.Contains(names, "deep/"+strings.Repeat(name+"/", entered)+"z"))
}

func openFiles(t *testing.T) int {
	found, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(found)
}
