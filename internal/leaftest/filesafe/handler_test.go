package filesafe_test

import (
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/filesafe"
)

func TestHandler(t *testing.T) {
	l := newLayout(t)
	mux := http.NewServeMux()
	mux.Handle("/", l.dir.Handler())
	mux.Handle("/below/", http.StripPrefix("/below/", l.dir.Handler()))
	c := newClient(t, mux)
	for _, prefix := range []string{"/", "/below/"} {
		got := c.ask("GET", prefix+"sub/b.txt")
		require.Equal(t, 200, got.status)
		require.Equal(t, "content of b", got.body)
		require.Equal(t, "text/plain", got.header.Get("Content-Type"))
		require.Equal(t, "nosniff", got.header.Get("X-Content-Type-Options"))
		require.Empty(t, got.header.Get("Content-Disposition"))
		require.Equal(t, 304, c.ask("GET", prefix+"sub/b.txt", "If-None-Match", got.header.Get("ETag")).status)
		require.Equal(t, "on", c.ask("GET", prefix+"a.txt", "Range", "bytes=1-2").body)
		bad := c.ask("GET", prefix+"a.txt", "Range", "bytes=99-")
		require.Equal(t, 416, bad.status)
		require.Equal(t, "range not satisfiable\n", bad.body)
		require.Equal(t, "unicode", c.ask("GET", prefix+"%C3%BCn%C3%AF%20c%C3%B4d%C3%A9%20%22%25.pdf").body)
		for _, path := range []string{"sub", "sub/", "dirlink", "absdir/"} {
			got := c.ask("GET", prefix+path)
			require.Equal(t, "deep/\nb.txt\nout\nparent\nsecret.txt\nup\n", got.body)
			head := c.ask("HEAD", prefix+path)
			require.Equal(t, 200, head.status)
			for _, got := range []answer{got, head} {
				require.Equal(t, "text/plain; charset=utf-8", got.header.Get("Content-Type"))
				require.Equal(t, "nosniff", got.header.Get("X-Content-Type-Options"))
			}
		}
		require.Contains(t, c.ask("GET", prefix).body, "sub/\n")
		for _, path := range []string{"nothing", "out", "outdir/", "outdir/secret.txt", "fifo", "a.txt/", "a.txt%00", "loop",
			"sub%2f..%2fa.txt", "sub%2Fb.txt", "sub%2fb.txt", "sub%252Fb.txt", "%2Fa.txt"} {
			got := c.ask("GET", prefix+path)
			require.Equal(t, 404, got.status, path)
			require.Equal(t, "not found\n", got.body)
			require.Equal(t, "nosniff", got.header.Get("X-Content-Type-Options"))
		}
	}
	post := c.ask("POST", "/a.txt")
	require.Equal(t, 405, post.status)
	require.Equal(t, "GET, HEAD", post.header.Get("Allow"))
	require.NoError(t, os.Mkdir(filepath.Join(l.root, "void"), 0o755))
	require.Equal(t, 200, c.ask("GET", "/void").status)

	other, err := filesafe.Open(l.root)
	require.NoError(t, err)
	require.NoError(t, other.Close())
	closed := newClient(t, other.Handler()).ask("GET", "/a.txt")
	require.Equal(t, 500, closed.status)
	require.Equal(t, "internal error\n", closed.body)
}

func TestInternalErrors(t *testing.T) {
	l := newLayout(t)
	dir, err := filesafe.Open(l.root)
	require.NoError(t, err)
	require.NoError(t, dir.Close())
	for _, path := range []string{"/v1/files?path=sub", "/v1/files?path=absdir&recursive=true",
		"/v1/files/content?path=a.txt", "/v1/files/content?path=abs"} {
		var faults []error
		api := &filesafe.Handlers{Dir: dir, Fail: func(w http.ResponseWriter, _ *http.Request, err error) {
			faults = append(faults, err)
			w.WriteHeader(http.StatusTeapot)
		}}
		mux := http.NewServeMux()
		mux.HandleFunc("/v1/files", api.List)
		mux.HandleFunc("/v1/files/content", api.Content)
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		require.Equal(t, http.StatusTeapot, w.Code)
		require.Len(t, faults, 1)
		require.ErrorIs(t, faults[0], fs.ErrClosed)
		require.NotErrorIs(t, faults[0], filesafe.ErrOutside)

		api.Fail = nil
		w = httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		require.Equal(t, 500, w.Code)
		require.JSONEq(t, `{"error":"Internal error"}`, w.Body.String())
	}
	_, err = filesafe.Open(filepath.Join(l.root, "nothing"))
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = filesafe.Open(filepath.Join(l.root, "a.txt"))
	require.Error(t, err)
}

// wrapper forwards ReadFrom, like one that counts bytes, and records its argument.
type wrapper struct {
	http.ResponseWriter
	from *io.Reader
}

func (w wrapper) ReadFrom(r io.Reader) (int64, error) {
	*w.from = r
	return io.Copy(w.ResponseWriter, r)
}

// TestSendfileIsUsed checks the condition of package net for sendfile(2): an *os.File in an
// *io.LimitedReader without another wrapper.
func TestSendfileIsUsed(t *testing.T) {
	l := newLayout(t)
	l.write(t, "root/large", strings.Repeat("0123456789", 1<<20))
	api := &filesafe.Handlers{Dir: l.dir}
	for header, want := range map[string]int{"": 10 << 20, "bytes=5-1000004": 1_000_000} {
		var from io.Reader
		c := newClient(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { api.Content(wrapper{w, &from}, r) }))
		got := c.ask(http.MethodGet, "/?path=large", "Range", header)
		require.Len(t, got.body, want)
		limited, ok := from.(*io.LimitedReader)
		require.True(t, ok)
		require.IsType(t, &os.File{}, limited.R)
	}
}

// TestFileChangesWhileItIsSent truncates and extends a file after the header was sent.
func TestFileChangesWhileItIsSent(t *testing.T) {
	l := newLayout(t)
	path := filepath.Join(l.root, "large")
	for name, size := range map[string]int64{"cut": 1000, "grown": 20 << 20} {
		l.write(t, "root/large", strings.Repeat("x", 10<<20))
		api := &filesafe.Handlers{Dir: l.dir}
		c := newClient(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			api.Content(&late{w, func() { require.NoError(t, os.Truncate(path, size)) }}, r)
		}))
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.server.URL+"/?path=large", nil)
		require.NoError(t, err)
		res, err := c.server.Client().Do(req)
		require.NoError(t, err)
		n, err := io.Copy(io.Discard, res.Body)
		require.NoError(t, res.Body.Close())
		if name == "cut" {
			require.ErrorIs(t, err, io.ErrUnexpectedEOF, "half a file looks whole")
		} else {
			require.NoError(t, err)
			require.EqualValues(t, 10<<20, n)
		}
	}
}

// late calls a function after the header is written.
type late struct {
	http.ResponseWriter
	then func()
}

func (l *late) WriteHeader(status int) {
	l.ResponseWriter.WriteHeader(status)
	l.then()
}
