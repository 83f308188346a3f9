package artifact_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/filesafe"
	"github.com/seed93082962/agenthost/hub/blob"
	"github.com/seed93082962/agenthost/hub/blob/blobtest"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/artifact"
)

// BenchmarkDownload downloads a tool from /artifacts, and the same file from filesafe behind the
// same api.Server, alternately.
func BenchmarkDownload(b *testing.B) {
	for name, size := range map[string]int{"4KiB": 4 << 10, "1MiB": 1 << 20} {
		b.Run(name, func(b *testing.B) {
			path := b.TempDir()
			driver, err := blob.OpenFolder(path)
			require.NoError(b, err)
			defer driver.Close()
			s := open(b, func(c *artifact.Config) { c.Driver = driver })
			ref := put(b, s, artifact.Tools, "a.ts", blobtest.Content(size))
			require.NoError(b, os.WriteFile(filepath.Join(path, "a.ts"), blobtest.Content(size), 0o600))
			dir, err := filesafe.Open(path)
			require.NoError(b, err)
			defer dir.Close()
			files := &filesafe.Handlers{Dir: dir}
			routes := append(s.Routes(), api.Route{Method: http.MethodGet, Path: "/file", Access: api.Open, Handle: func(w http.ResponseWriter, r *http.Request) error {
				files.Content(w, r)
				return nil
			}})
			handler, err := api.New(api.Config{}, routes...)
			require.NoError(b, err)
			server := httptest.NewServer(handler)
			defer server.Close()
			urls := []string{server.URL + "/artifacts/" + ref.Key(), server.URL + "/file?path=tools/" + ref.Hash + "/a.ts"}
			var took, cpu [2]time.Duration
			rounds := 0
			for ; b.Loop(); rounds++ {
				for i := range urls {
					i = (i + rounds) % 2
					began, used := time.Now(), processor(b)
					for range 20 {
						res, err := server.Client().Get(urls[i])
						require.NoError(b, err)
						n, err := io.Copy(io.Discard, res.Body)
						require.NoError(b, err)
						require.EqualValues(b, size, n)
						require.NoError(b, res.Body.Close())
					}
					took[i] += time.Since(began)
					cpu[i] += processor(b) - used
				}
			}
			b.ReportMetric(float64(took[0])/float64(rounds*20*1000), "artifact-us")
			b.ReportMetric(float64(took[1])/float64(rounds*20*1000), "filesafe-us")
			b.ReportMetric(float64(took[1])/float64(took[0]), "ratio")
			b.ReportMetric(float64(cpu[1])/float64(cpu[0]), "cpu-ratio")
		})
	}
}

// processor returns the processor time of this process.
func processor(b *testing.B) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
