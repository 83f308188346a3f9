package filesafe_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/filesafe"
)

// Paths from outside are bounded before anything is done with them.
func TestLongPaths(t *testing.T) {
	root := t.TempDir()
	dir, err := filesafe.Open(root)
	require.NoError(t, err)
	defer func() { require.NoError(t, dir.Close()) }()
	api := &filesafe.Handlers{Dir: dir}
	for name, row := range map[string]struct {
		path string
		long bool
	}{
		"4,096 bytes":  {strings.Repeat("aaaaaaaaaaaaaaa/", 255) + strings.Repeat("b", 16), false},
		"4,097 bytes":  {strings.Repeat("a", 4097), true},
		"256 names":    {strings.Repeat("a/", 255) + "b", false},
		"257 names":    {strings.Repeat("a/", 256) + "b", true},
		"12,000 names": {strings.Repeat("a/", 12_000) + "b", true},
		"80 kB":        {strings.Repeat("a", 80_000), true},
	} {
		for method, err := range map[string]error{
			"WriteFile": dir.WriteFile(row.path, nil, 0o600),
			"Stat":      second(dir.Stat(row.path)),
			"Open":      second(dir.Open(row.path)),
			"Resolve":   second(dir.Resolve(row.path)),
		} {
			require.Equal(t, row.long, tooLong(t, err), "%s %s", method, name)
		}
		status := map[bool]int{false: http.StatusNotFound, true: http.StatusBadRequest}[row.long]
		for _, h := range []http.HandlerFunc{api.List, api.Content} {
			rec := httptest.NewRecorder()
			h(rec, httptest.NewRequest(http.MethodGet, "/?path="+strings.ReplaceAll(row.path, "b", "c"), nil))
			require.Equal(t, status, rec.Code, name)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func tooLong(t *testing.T, err error) bool {
	require.True(t, err == nil || len(err.Error()) < 5000, "the path is shortened")
	return errors.Is(err, syscall.ENAMETOOLONG)
}

// Links must not lead to more names than a path may have.
func TestLinksToLongPaths(t *testing.T) {
	root := t.TempDir()
	dir, err := filesafe.Open(root)
	require.NoError(t, err)
	defer func() { require.NoError(t, dir.Close()) }()
	deep := filepath.Join(root, strings.Repeat("d/", 200))
	require.NoError(t, os.MkdirAll(deep, 0o700))
	require.NoError(t, os.Symlink(strings.Repeat("d/", 200), filepath.Join(root, "down")))
	require.NoError(t, os.WriteFile(filepath.Join(deep, "file"), nil, 0o600))
	rel, err := dir.Resolve("down/file")
	require.NoError(t, err)
	require.Equal(t, strings.Repeat("d/", 200)+"file", rel)
	_, err = dir.Resolve("down/" + strings.Repeat("e/", 100))
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NoError(t, os.MkdirAll(filepath.Join(deep, strings.Repeat("e/", 100)), 0o700))
	_, err = dir.Resolve("down/" + strings.Repeat("e/", 100))
	require.ErrorIs(t, err, syscall.ENAMETOOLONG)
}

// The allocations of a resolution, which opens directories, grow with the names of the path.
func TestResolutionIsLinear(t *testing.T) {
	root := t.TempDir()
	dir, err := filesafe.Open(root)
	require.NoError(t, err)
	defer func() { require.NoError(t, dir.Close()) }()
	require.NoError(t, os.MkdirAll(filepath.Join(root, strings.Repeat("d/", 240)), 0o700))
	cost := func(names int) float64 {
		path := strings.Repeat("d/", names)
		return testing.AllocsPerRun(3, func() {
			_, err := dir.Resolve(path)
			require.NoError(t, err)
		})
	}
	require.Less(t, cost(240), 3*cost(120), "not four times as much")
}

// Without a time and a tag, no condition selects another status, and a time in the future is not
// sent.
func TestServeWithoutAVersion(t *testing.T) {
	serve := func(c filesafe.Content, headers ...string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		for i := 0; i+1 < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		rec := httptest.NewRecorder()
		c.Body, c.Size = strings.NewReader("content"), 7
		_, err := c.Serve(rec, r)
		require.NoError(t, err)
		return rec
	}
	const date = "Fri, 27 Nov 2026 08:00:00 GMT"
	for _, headers := range [][]string{
		{}, {"If-Modified-Since", date}, {"If-Unmodified-Since", "Mon, 01 Jan 0001 00:00:00 GMT"}, {"If-None-Match", `""`}, {"If-None-Match", `"x"`},
	} {
		rec := serve(filesafe.Content{Name: "a.txt"}, headers...)
		require.Equal(t, http.StatusOK, rec.Code, headers)
		require.Empty(t, rec.Header().Values("Last-Modified"))
		require.NotContains(t, rec.Header(), "Etag")
	}
	require.Equal(t, http.StatusOK, serve(filesafe.Content{}, "Range", "bytes=1-2", "If-Range", "").Code, "nothing is the same version")

	synctest.Test(t, func(t *testing.T) {
		now := time.Now().UTC()
		rec := serve(filesafe.Content{Name: "a.txt", Modified: now.Add(time.Hour)})
		require.Equal(t, now.Format(http.TimeFormat), rec.Header().Get("Last-Modified"))
		rec = serve(filesafe.Content{Name: "a.txt", Modified: now.Add(-time.Hour)})
		require.Equal(t, now.Add(-time.Hour).Format(http.TimeFormat), rec.Header().Get("Last-Modified"))
	})
}

// stalling is a connection whose client has read some bytes, at the start of the first period.
type stalling struct {
	*httptest.ResponseRecorder
	deadline time.Time
	took     int64
}

func (s *stalling) SetWriteDeadline(at time.Time) error {
	s.deadline = at
	return nil
}

func (s *stalling) ReadFrom(r io.Reader) (int64, error) {
	n := s.took
	s.took = 0
	if n > 0 {
		if _, err := r.Read(make([]byte, n)); err != nil {
			return 0, err
		}
	}
	<-time.After(time.Until(s.deadline))
	return n, fmt.Errorf("write: %w", os.ErrDeadlineExceeded)
}

// The time of a stalled client begins with the last byte that its connection took.
func TestAStalledDownloadEndsAfterOneTimeout(t *testing.T) {
	dir, _ := large(t)
	api := &filesafe.Handlers{Dir: dir}
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		w := &stalling{ResponseRecorder: httptest.NewRecorder(), took: 200_000}
		api.Content(w, httptest.NewRequest(http.MethodGet, "/?path=large", nil))
		require.GreaterOrEqual(t, time.Since(began), 30*time.Second)
		require.Less(t, time.Since(began), 40*time.Second)
	})
}
