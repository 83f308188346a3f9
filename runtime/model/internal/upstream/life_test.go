package upstream_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/internal/collect"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/internal/upstream"
)

var errStop = errors.New("the user pressed stop")

// hang responds with the output of begin and nothing more, and reports when the client has
// disconnected.
func hang(begin http.HandlerFunc) (http.HandlerFunc, <-chan struct{}) {
	gone := make(chan struct{})
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // net/http watches a connection whose request is read
		if begin != nil {
			begin(w, r)
			w.(http.Flusher).Flush()
		}
		<-r.Context().Done()
		close(gone)
	}, gone
}

func TestCancel(t *testing.T) {
	for name, begin := range map[string]http.HandlerFunc{
		"before the header":      nil,
		"after the header":       stream(),
		"in mid-stream":          stream("a"),
		"in an error's body":     response(500, "application/json", "{"),
		"when nearly everything": stream("a", "finish"),
	} {
		t.Run(name, func(t *testing.T) {
			handler, gone := hang(begin)
			arrived := make(chan struct{})
			c := client(t, func(w http.ResponseWriter, r *http.Request) {
				close(arrived)
				handler(w, r)
			})
			ctx, cancel := context.WithCancelCause(t.Context())
			go func() {
				<-arrived
				cancel(errStop)
			}()
			_, err := new(collect.Collector).Collect(call(ctx, c, nil))
			require.Equal(t, errStop, err) // itself, in no wrapping
			<-gone
		})
	}
}

func TestCancelledBeforehand(t *testing.T) {
	c := client(t, func(http.ResponseWriter, *http.Request) { t.Error("upstream was called") })
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errStop)
	_, err := new(collect.Collector).Collect(call(ctx, c, nil))
	require.ErrorIs(t, err, errStop)
	require.ErrorIs(t, err, model.ErrUnsent)
}

// A small request is one packet. It is sent, from the point of view of a retry, when it may have
// arrived.
func TestSmallRequest(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	c := clientOf(t, upstream.Config{BaseURL: "http://" + listener.Addr().String()})
	for range 20 {
		received := make(chan string)
		go func() {
			conn, err := listener.Accept()
			if err != nil {
				close(received)
				return
			}
			b := make([]byte, 4<<10)
			n, _ := conn.Read(b)
			_ = conn.Close()
			received <- string(b[:n])
		}()
		errs := make(chan error)
		go func() {
			_, err := new(collect.Collector).Collect(call(t.Context(), c, nil))
			errs <- err
		}()
		require.Contains(t, <-received, "\r\n\r\n"+`{"prompt":"hello"}`)
		err = <-errs
		require.Error(t, err)
		require.NotErrorIs(t, err, model.ErrUnsent)
	}
	require.NoError(t, listener.Close())
	_, err = new(collect.Collector).Collect(call(t.Context(), c, nil))
	require.Error(t, err)
	require.ErrorIs(t, err, model.ErrUnsent)
}

func TestBreakClosesTheConnection(t *testing.T) {
	handler, gone := hang(stream("a", "b", "c"))
	c := client(t, handler)
	for p, err := range call(t.Context(), c, nil) {
		require.NoError(t, err)
		require.Equal(t, "a", p.Text)
		break
	}
	<-gone
}

func TestHTTP2(t *testing.T) {
	handler, gone := hang(stream("a"))
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			t.Errorf("request came by %s", r.Proto)
		}
		handler(w, r)
	}))
	srv.EnableHTTP2 = true
	srv.StartTLS()
	defer srv.Close()
	c := clientOf(t, upstream.Config{BaseURL: srv.URL, HTTPClient: srv.Client()})
	for p, err := range call(t.Context(), c, nil) {
		require.NoError(t, err)
		require.Equal(t, "a", p.Text)
		break
	}
	<-gone
}

// connections counts those that a server has accepted.
func connections(t *testing.T, handler http.HandlerFunc) (*upstream.Client, *atomic.Int32) {
	var n atomic.Int32
	srv := httptest.NewUnstartedServer(handler)
	srv.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			n.Add(1)
		}
	}
	srv.Start()
	c := clientOf(t, upstream.Config{BaseURL: srv.URL})
	t.Cleanup(func() {
		c.CloseIdleConnections()
		srv.Close()
	})
	return c, &n
}

func TestConnectionIsUsedAgain(t *testing.T) {
	for name, row := range map[string]struct {
		handler http.HandlerFunc
		read    func(t *testing.T, c *upstream.Client)
	}{
		"after a whole response": {stream("a", "stop"), func(t *testing.T, c *upstream.Client) {
			_, err := new(collect.Collector).Collect(call(t.Context(), c, nil))
			require.NoError(t, err)
		}},
		"after a break at its stop part": {stream("stop", "more"), func(t *testing.T, c *upstream.Client) {
			for range call(t.Context(), c, nil) {
				break
			}
		}},
		"after an error": {response(500, "application/json", `{}`), func(t *testing.T, c *upstream.Client) {
			failure(t, c)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			c, n := connections(t, row.handler)
			for range 5 {
				row.read(t, c)
			}
			require.Equal(t, int32(1), n.Load())
		})
	}
}

// TestEndIsWaitedFor verifies that a call waits for a body that ends shortly after the last event,
// so that its connection can be reused.
func TestEndIsWaitedFor(t *testing.T) {
	reported := make(chan struct{})
	c, n := connections(t, func(w http.ResponseWriter, r *http.Request) {
		stream("a", "stop")(w, r)
		w.(http.Flusher).Flush()
		<-reported
	})
	const calls = 5
	for range calls {
		for p, err := range call(t.Context(), c, nil) {
			require.NoError(t, err)
			if p.Kind == model.KindStop {
				reported <- struct{}{}
			}
		}
	}
	require.Less(t, n.Load(), int32(calls)) // a busy machine may be late
}

func TestServerThatDoesNotEndItsBody(t *testing.T) {
	handler, gone := hang(stream("a", "stop"))
	c := client(t, handler)
	_, err := new(collect.Collector).Collect(call(t.Context(), c, nil))
	require.NoError(t, err)
	<-gone
}

// upstreamFunc is an upstream in memory, for tests of time.
type upstreamFunc func(*http.Request) (*http.Response, error)

func (f upstreamFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// endless is a body without further data that ends only with its request.
type endless struct {
	io.Reader
	ctx context.Context
}

func (b *endless) Read(p []byte) (int, error) {
	if n, err := b.Reader.Read(p); err != io.EOF {
		return n, err
	}
	<-b.ctx.Done()
	return 0, b.ctx.Err()
}

func (b *endless) Close() error { return nil }

func inMemory(t *testing.T, status int, contentType, body string) *upstream.Client {
	return clientOf(t, upstream.Config{BaseURL: "http://model.test", HTTPClient: &http.Client{
		Transport: upstreamFunc(func(r *http.Request) (*http.Response, error) {
			_ = r.Body.Close()
			return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {contentType}},
				Body: &endless{strings.NewReader(body), r.Context()}}, nil
		}),
	}})
}

func TestNothingIsWaitedForLong(t *testing.T) {
	t.Run("the end of a whole response", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			_, err := new(collect.Collector).Collect(call(t.Context(), inMemory(t, 200, "text/event-stream", "data: stop\n\n"), nil))
			require.NoError(t, err)
			require.LessOrEqual(t, time.Since(began), 50*time.Millisecond)
		})
	})
	t.Run("the end of an error", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			got := failure(t, inMemory(t, 400, "application/json", `{"error":{"message":"no"}}`))
			require.Equal(t, []any{model.Code(runvalue.ErrorTypeInvalidRequest), "no"}, []any{got.Code, got.Message})
			require.LessOrEqual(t, time.Since(began), 5*time.Second)
		})
	})
}

// The memory of a large conversation is free while the response arrives.
func TestTheRequestIsReleasedBeforeTheResponse(t *testing.T) {
	handler, _ := hang(stream("a"))
	c := client(t, handler)
	const size = 32 << 20
	text := strings.Repeat("x", size)
	before := heap()
	c.Stream(t.Context(), &model.Request{}, text, &lines{}, func(_ model.Part, err error) bool {
		require.NoError(t, err)
		require.Less(t, heap(), before+size/2)
		return false
	})
	runtime.KeepAlive(text)
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // pools release their items at the second
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
