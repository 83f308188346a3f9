package filesafe_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/filesafe"
)

// fill makes n empty files in a directory, in no order.
func fill(t *testing.T, dir string, n int) {
	require.NoError(t, os.MkdirAll(dir, 0o755))
	fd, err := syscall.Open(dir, syscall.O_RDONLY|syscall.O_DIRECTORY, 0)
	require.NoError(t, err)
	defer func() { require.NoError(t, syscall.Close(fd)) }()
	for i := range n {
		f, err := syscall.Openat(fd, fmt.Sprintf("a-file-with-some-name-%07d", i*7919%n), syscall.O_CREAT|syscall.O_WRONLY, 0o644)
		require.NoError(t, err)
		require.NoError(t, syscall.Close(f))
	}
}

// TestHugeTree lists more entries than a listing holds in memory: in one directory, and in directories on several levels
// whose names do not fit together.
func TestHugeTree(t *testing.T) {
	l := newLayout(t)
	const top, below = 140_000, 40_000
	fill(t, filepath.Join(l.root, "huge"), top)
	fill(t, filepath.Join(l.root, "huge", "A"), below) // sorts before all others
	require.NoError(t, os.Mkdir(filepath.Join(l.root, "huge", "z"), 0o755))
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	for name, row := range map[string]struct{ depth, want int }{"flat": {-2, top + 2}, "tree": {-1, top + below + 2}} {
		t.Run(name, func(t *testing.T) {
			before := heap()
			entries := l.dir.List(t.Context(), "huge")
			if row.depth == -1 {
				entries = l.dir.Walk(t.Context(), "huge", -1)
			}
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
				if n++; n%20_000 == 0 {
					most = max(most, heap()-before)
				}
			}
			require.Equal(t, row.want, n)
			// 65,536 names are 6 MB; the limit is three times that. All that os.ReadDir tells of 180,000 entries is over 60 MB.
			require.Less(t, most, uint64(20<<20))
			t.Logf("%d entries, at most %d KiB", n, most>>10)
		})
	}
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
		api := &filesafe.API{Dir: l.dir}
		written, ended := &atomic.Int64{}, make(chan any, 1)
		c := newClient(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer func() { ended <- recover() }()
			api.List(&counter{w, written}, r)
		}))
		c.server.Config.ErrorLog = nil
		whole := c.ask(http.MethodGet, "/?path=huge&recursive=true")
		require.Nil(t, <-ended)
		require.EqualValues(t, len(whole.body), written.Swap(0))
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.server.URL+"/?path=huge&recursive=true", nil)
		require.NoError(t, err)
		res, err := c.server.Client().Do(req)
		require.NoError(t, err)
		_, err = res.Body.Read(make([]byte, 1000))
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, http.ErrAbortHandler, <-ended)
		require.Less(t, written.Load(), int64(len(whole.body)/2))
	})
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

// TestDeepTree goes deeper than the number of directories that a listing keeps open, and than the longest path.
func TestDeepTree(t *testing.T) {
	l := newLayout(t)
	const depth = 300
	name := strings.Repeat("d", 30)
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
	require.Len(t, names, depth+depth+4)
	require.Less(t, most, 64)
	require.LessOrEqual(t, openFiles(t), before)
	require.True(t, slices.Contains(names, "deep/"+strings.Repeat(name+"/", depth-1)+"z"))
}

func openFiles(t *testing.T) int {
	found, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(found)
}
