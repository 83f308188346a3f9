package filesafe_test

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/filesafe"
)

// discard is a client that reads immediately.
type discard struct {
	header http.Header
	bytes  int
}

func (d *discard) Header() http.Header { return d.header }
func (d *discard) WriteHeader(int)     {}
func (d *discard) Write(p []byte) (int, error) {
	d.bytes += len(p)
	return len(p), nil
}

// grow creates a tree of dirs directories, ten in each, with files files in each.
func grow(b *testing.B, dirs, files int) string {
	top := b.TempDir()
	paths := []string{top}
	for i := 0; len(paths) < dirs; i++ {
		path := filepath.Join(paths[i/10], fmt.Sprintf("directory-%d", i%10))
		require.NoError(b, os.Mkdir(path, 0o755))
		paths = append(paths, path)
	}
	for _, path := range paths {
		for i := range files {
			require.NoError(b, os.WriteFile(filepath.Join(path, fmt.Sprintf("file-%05d.txt", i)), nil, 0o644))
		}
	}
	return top
}

// BenchmarkList responds with a listing of one directory as JSON. The naive alternative uses
// os.ReadDir and encoding/json; http.FileServer writes names as HTML.
func BenchmarkList(b *testing.B) {
	path := grow(b, 1, 10_000)
	dir, err := filesafe.Open(path)
	require.NoError(b, err)
	defer dir.Close()
	api := &filesafe.Handlers{Dir: dir}
	serve := func(h http.Handler) func(*testing.B) {
		return func(b *testing.B) {
			b.ReportAllocs()
			req := httptest.NewRequest(http.MethodGet, "/", nil)
			for b.Loop() {
				w := &discard{header: http.Header{}}
				if h.ServeHTTP(w, req); w.bytes < 100_000 {
					b.Fatal("short answer")
				}
			}
		}
	}
	b.Run("filesafe", serve(http.HandlerFunc(api.List)))
	b.Run("ReadDir and encoding json", serve(naiveList(path)))
	b.Run("http.FileServer", serve(http.FileServer(http.Dir(path))))
}

// naiveList is the straightforward implementation without this package.
func naiveList(path string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		type entry struct {
			Name  string    `json:"name"`
			Type  string    `json:"type"`
			Size  int64     `json:"size"`
			Mtime time.Time `json:"mtime"`
			MIME  string    `json:"mime"`
		}
		var answer struct {
			Entries []entry `json:"entries"`
		}
		found, _ := os.ReadDir(path)
		for _, e := range found {
			if info, err := e.Info(); err == nil {
				answer.Entries = append(answer.Entries, entry{e.Name(), "file", info.Size(), info.ModTime(), "text/plain"})
			}
		}
		_ = json.NewEncoder(w).Encode(answer)
	}
}

// BenchmarkListServer is BenchmarkList over HTTP, from a server with one processor to four clients.
// The contestants alternate. cpu-ms is the CPU time of the server for one listing.
func BenchmarkListServer(b *testing.B) {
	path := grow(b, 1, 10_000)
	c := startBenchServer(b, path)
	base := "http://" + c.conn.RemoteAddr().String()
	urls := []string{base + "/list/filesafe", base + "/list/naive", base + "/FileServer/"}
	var total [3]struct{ took, cpu int64 }
	const turn, clients = 10, 4
	rounds := 0
	for ; b.Loop(); rounds++ {
		for i := range urls {
			i = (i + rounds) % len(urls)
			cpu, _ := c.usage()
			began := time.Now()
			var all sync.WaitGroup
			for range clients {
				all.Go(func() {
					for range turn {
						res, err := http.Get(urls[i])
						if err != nil {
							b.Error(err)
							return
						}
						if n, err := io.Copy(io.Discard, res.Body); err != nil || n < 100_000 {
							b.Error("short answer", err)
						}
						_ = res.Body.Close() // it was read
					}
				})
			}
			all.Wait()
			total[i].took += int64(time.Since(began))
			after, _ := c.usage()
			total[i].cpu += after - cpu
		}
	}
	n := float64(rounds * turn * clients)
	for i, who := range []string{"filesafe", "naive", "FileServer"} {
		b.ReportMetric(n/float64(total[i].took)*1e9, who+"/s")
		b.ReportMetric(float64(total[i].cpu)/n/1e6, who+"-cpu-ms")
	}
}

// BenchmarkTree walks 100,000 entries in 2,000 directories. WalkDir and Info are the least that a
// listing needs.
func BenchmarkTree(b *testing.B) {
	path := grow(b, 2_000, 49)
	dir, err := filesafe.Open(path)
	require.NoError(b, err)
	defer dir.Close()
	api := &filesafe.Handlers{Dir: dir}
	b.Run("filesafe JSON", func(b *testing.B) {
		b.ReportAllocs()
		req := httptest.NewRequest(http.MethodGet, "/?recursive=true", nil)
		for b.Loop() {
			w := &discard{header: http.Header{}}
			if api.List(w, req); w.bytes < 5_000_000 {
				b.Fatal("short answer")
			}
		}
	})
	b.Run("filesafe Walk", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			n := 0
			for _, err := range dir.Walk(b.Context(), "", -1) {
				if n++; err != nil {
					b.Fatal(err)
				}
			}
			if n != 99_999 {
				b.Fatal(n)
			}
		}
	})
	b.Run("WalkDir and Info", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			err := filepath.WalkDir(path, func(_ string, d fs.DirEntry, err error) error {
				if err == nil {
					_, err = d.Info()
				}
				return err
			})
			if err != nil {
				b.Fatal(err)
			}
		}
	})
}
