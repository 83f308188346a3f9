package filesafe_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/filesafe"
)

// narrow is a connection with small buffers, so that the server soon notices a stalled client.
type narrow struct {
	net.Conn
	in     *bufio.Reader
	closed chan struct{} // by the server
}

func dialNarrow(t *testing.T, h http.Handler, secure bool) *narrow {
	n := &narrow{closed: make(chan struct{})}
	server := httptest.NewUnstartedServer(h)
	server.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		if wrapped, ok := c.(*tls.Conn); ok {
			c = wrapped.NetConn()
		}
		require.NoError(t, c.(*net.TCPConn).SetWriteBuffer(32<<10))
		return ctx
	}
	start := server.Start
	if secure {
		start = server.StartTLS
	}
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			close(n.closed)
		}
	}
	start()
	t.Cleanup(server.Close)
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	require.NoError(t, err)
	require.NoError(t, conn.(*net.TCPConn).SetReadBuffer(32<<10))
	if n.Conn = conn; secure {
		config := server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
		config.ServerName = "example.com"
		n.Conn = tls.Client(conn, config)
	}
	t.Cleanup(func() { _ = n.Close() })
	n.in = bufio.NewReader(n.Conn)
	return n
}

func (n *narrow) send(t *testing.T, target string) {
	_, err := fmt.Fprintf(n, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", target)
	require.NoError(t, err)
}

func (n *narrow) receive(t *testing.T) *http.Response {
	res, err := http.ReadResponse(n.in, nil)
	require.NoError(t, err)
	return res
}

// large has a sparse file of 8 MiB and a small file.
func large(t *testing.T) (dir *filesafe.Dir, path string) {
	path = t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(path, "large"), nil, 0o600))
	require.NoError(t, os.Truncate(filepath.Join(path, "large"), 8<<20))
	require.NoError(t, os.WriteFile(filepath.Join(path, "small"), make([]byte, 4<<10), 0o600))
	dir, err := filesafe.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, dir.Close()) })
	return dir, path
}

func TestStalledClientIsDisconnected(t *testing.T) {
	t.Parallel()
	dir, path := large(t)
	for i := range 5000 {
		require.NoError(t, os.WriteFile(filepath.Join(path, fmt.Sprint("many-", i)), nil, 0o600))
	}
	api := &filesafe.Handlers{Dir: dir, WriteTimeout: 100 * time.Millisecond}
	for name, row := range map[string]struct {
		handler http.HandlerFunc
		target  string
		times   int
		secure  bool
	}{
		"a large file":           {api.Content, "/?path=large", 1, false},
		"a large file, over TLS": {api.Content, "/?path=large", 1, true},    // the close of TLS takes 5 s more
		"small files":            {api.Content, "/?path=small", 300, false}, // pipelined requests
		"a listing":              {api.List, "/", 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := dialNarrow(t, row.handler, row.secure)
			for range row.times {
				n.send(t, row.target)
			}
			select {
			case <-n.closed:
			case <-time.After(time.Minute):
				require.Fail(t, "the handler does not return")
			}
		})
	}
}

func TestSlowClientGetsTheWholeResponse(t *testing.T) {
	dir, _ := large(t)
	api := &filesafe.Handlers{Dir: dir, WriteTimeout: 400 * time.Millisecond}
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprint("TLS ", secure), func(t *testing.T) {
			n := dialNarrow(t, http.HandlerFunc(api.Content), secure)
			n.send(t, "/?path=large")
			body := n.receive(t).Body
			got := int64(0)
			for range 25 { // for much longer than the timeout, and slower than one chunk per timeout
				<-time.After(50 * time.Millisecond)
				part, err := io.CopyN(io.Discard, body, 32<<10)
				require.NoError(t, err)
				got += part
			}
			rest, err := io.Copy(io.Discard, body)
			require.NoError(t, err)
			require.EqualValues(t, 8<<20, got+rest)
		})
	}
}

// Responses set deadlines and remove them, so that a later response on the same connection has
// none.
func TestDownloadRemovesItsDeadline(t *testing.T) {
	dir, _ := large(t)
	api := &filesafe.Handlers{Dir: dir, WriteTimeout: time.Hour} // is never reached
	handlers := map[string]http.HandlerFunc{"/content": api.Content, "/list": api.List}
	responses := make(chan []time.Time, 1)
	n := dialNarrow(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f := &forwarded{ResponseWriter: w}
		handlers[r.URL.Path](f, r)
		responses <- f.deadlines
	}), false)
	for _, target := range []string{"/content?path=large", "/content?path=small", "/list"} {
		n.send(t, target)
		res := n.receive(t)
		require.Equal(t, http.StatusOK, res.StatusCode)
		_, err := io.Copy(io.Discard, res.Body)
		require.NoError(t, err, target)
		deadlines := <-responses
		require.Greater(t, len(deadlines), 1, target)
		for i, at := range deadlines {
			require.Equal(t, i == len(deadlines)-1, at.IsZero(), "%s: deadline %d", target, i)
		}
	}
}

func TestNegativeWriteTimeoutSetsNoDeadline(t *testing.T) {
	dir, _ := large(t)
	api := &filesafe.Handlers{Dir: dir, WriteTimeout: -1}
	set := 0
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { api.Content(deadlines{w, &set}, r) })
	n := dialNarrow(t, h, false)
	for range 2 {
		n.send(t, "/?path=large")
		got, err := io.Copy(io.Discard, n.receive(t).Body)
		require.NoError(t, err)
		require.EqualValues(t, 8<<20, got)
		require.Zero(t, set)
	}
}

// TestWriteTimeoutDefaultsTo30s runs in a bubble, so that no time passes between a deadline and the
// check.
func TestWriteTimeoutDefaultsTo30s(t *testing.T) {
	dir, _ := large(t)
	for name, row := range map[string]struct {
		handler http.Handler
		target  string
		want    time.Duration
	}{
		"a download":            {http.HandlerFunc((&filesafe.Handlers{Dir: dir}).Content), "/?path=small", 30 * time.Second},
		"a listing":             {http.HandlerFunc((&filesafe.Handlers{Dir: dir}).List), "/", 30 * time.Second},
		"a file of Handler":     {dir.Handler(), "/small", 30 * time.Second},
		"the names of Handler":  {dir.Handler(), "/", 30 * time.Second},
		"a time that was given": {http.HandlerFunc((&filesafe.Handlers{Dir: dir, WriteTimeout: time.Minute}).Content), "/?path=small", time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &dated{ResponseWriter: httptest.NewRecorder()}
				row.handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, row.target, nil))
				require.NotEmpty(t, w.left)
				for _, left := range w.left {
					require.Equal(t, row.want, left)
				}
			})
		})
	}
}

// dated records how far ahead each deadline is.
type dated struct {
	http.ResponseWriter
	left []time.Duration
}

func (d *dated) SetWriteDeadline(at time.Time) error {
	if !at.IsZero() { // removed
		d.left = append(d.left, time.Until(at))
	}
	return nil
}

// forwarded records the deadlines of a connection.
type forwarded struct {
	http.ResponseWriter
	deadlines []time.Time
}

// ReadFrom keeps sendfile(2).
func (f *forwarded) ReadFrom(r io.Reader) (int64, error) {
	return f.ResponseWriter.(io.ReaderFrom).ReadFrom(r)
}

func (f *forwarded) Unwrap() http.ResponseWriter { return f.ResponseWriter }

func (f *forwarded) SetWriteDeadline(at time.Time) error {
	f.deadlines = append(f.deadlines, at)
	return http.NewResponseController(f.ResponseWriter).SetWriteDeadline(at)
}

// deadlines counts deadlines.
type deadlines struct {
	http.ResponseWriter
	set *int
}

func (d deadlines) SetWriteDeadline(time.Time) error {
	*d.set++
	return nil
}
