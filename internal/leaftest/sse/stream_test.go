package sse_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/sse"
)

// wrapped is the writer of a middleware: it is not a Flusher, but has Unwrap. It records calls.
type wrapped struct {
	http.ResponseWriter
	mu    sync.Mutex
	calls []string
}

func (w *wrapped) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *wrapped) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, fmt.Sprintf(format, args...))
}

func (w *wrapped) Write(p []byte) (int, error) {
	w.note("write %d", len(p))
	return w.ResponseWriter.Write(p)
}

// recorded is a wrapped that also records flushes and deadlines.
type recorded struct{ wrapped }

func (w *recorded) FlushError() error {
	w.note("flush")
	return http.NewResponseController(w.ResponseWriter).Flush()
}

func (w *recorded) SetWriteDeadline(at time.Time) error {
	w.note("deadline %v", !at.IsZero())
	return nil
}

// serve starts a server with h over HTTP/1.1 or HTTP/2, mounted below a prefix and behind a
// wrapper, and returns a function that sends a request.
func serve(t *testing.T, http2 bool, h http.HandlerFunc) func() *http.Response {
	mux := http.NewServeMux()
	mux.Handle("/deep/", http.StripPrefix("/deep", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h(&wrapped{ResponseWriter: w}, r)
	})))
	srv := httptest.NewUnstartedServer(mux)
	srv.EnableHTTP2 = http2
	srv.StartTLS()
	t.Cleanup(srv.Close)
	return func() *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL+"/deep/events", nil)
		require.NoError(t, err)
		res, err := srv.Client().Do(req)
		require.NoError(t, err)
		t.Cleanup(func() { res.Body.Close() })
		return res
	}
}

func protocols(t *testing.T, test func(t *testing.T, http2 bool)) {
	t.Run("HTTP 1.1", func(t *testing.T) { test(t, false) })
	t.Run("HTTP 2", func(t *testing.T) { test(t, true) })
}

func TestStreamEventsArriveImmediately(t *testing.T) {
	protocols(t, func(t *testing.T, http2 bool) {
		opened, seen := make(chan bool), make(chan bool)
		do := serve(t, http2, func(w http.ResponseWriter, r *http.Request) {
			s, err := sse.NewStream(w, sse.StreamConfig{})
			defer func() { require.NoError(t, s.Close()) }()
			require.NoError(t, errors.Join(err, s.Flush()))
			<-opened
			require.NoError(t, s.Send(ev("a", "1", "x")))
			<-seen
			require.NoError(t, errors.Join(s.Queue(ev("b", "2", "")), s.Queue(ev("c", "3", "")), s.Flush()))
			<-seen
			require.NoError(t, s.Comment("d"))
			<-seen
			require.NoError(t, s.Queue(ev("e", "5", ""))) // for Close
		})
		res := do()
		require.Equal(t, http2, res.ProtoMajor == 2)
		require.Equal(t, http.StatusOK, res.StatusCode)
		require.Equal(t, "text/event-stream; charset=utf-8", res.Header.Get("Content-Type"))
		require.Equal(t, "no-cache, no-transform", res.Header.Get("Cache-Control"))
		require.Equal(t, "no", res.Header.Get("X-Accel-Buffering"))
		close(opened)

		d := sse.NewDecoder(io.TeeReader(res.Body, io.Discard))
		next := func(want sse.Event) {
			got, err := d.Next()
			require.NoError(t, err)
			require.Equal(t, want, got.Clone())
		}
		next(ev("a", "1", "x"))
		seen <- true
		next(ev("b", "2", "x"))
		require.True(t, d.Buffered(), "queued events travel together")
		next(ev("c", "3", "x"))
		seen <- true
		comment := make([]byte, len(": d\n\n"))
		_, err := io.ReadFull(res.Body, comment)
		require.NoError(t, err)
		require.Equal(t, ": d\n\n", string(comment))
		seen <- true
		next(ev("e", "5", "x"))
		_, err = d.Next()
		require.Equal(t, io.EOF, err)
	})
}

func TestNewStreamHeaders(t *testing.T) {
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", "5")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "yes")
	w.Header().Set("X-Run-ID", "7")
	s, err := sse.NewStream(w, sse.StreamConfig{})
	require.NoError(t, err)
	require.False(t, w.Flushed, "headers wait for the first flush")
	require.NoError(t, s.Close())
	require.Equal(t, http.Header{
		"Content-Type":      {"text/event-stream; charset=utf-8"},
		"Cache-Control":     {"no-store"},
		"X-Accel-Buffering": {"yes"},
		"X-Run-Id":          {"7"},
	}, w.Result().Header)
}

// deaf cannot flush.
type deaf struct{ w *httptest.ResponseRecorder }

func (d deaf) Header() http.Header         { return d.w.Header() }
func (d deaf) Write(p []byte) (int, error) { return d.w.Write(p) }
func (d deaf) WriteHeader(code int)        { d.w.WriteHeader(code) }

func TestNewStreamNeedsFlush(t *testing.T) {
	w := httptest.NewRecorder()
	for _, w := range []http.ResponseWriter{deaf{w}, &wrapped{ResponseWriter: deaf{w}}} {
		_, err := sse.NewStream(w, sse.StreamConfig{})
		require.ErrorIs(t, err, http.ErrNotSupported)
	}
	http.Error(w, "no", http.StatusInternalServerError)
	require.Equal(t, http.StatusInternalServerError, w.Code, "the answer is still the caller's to give")
	require.Empty(t, w.Result().Header.Get("Cache-Control"))
}

func TestStreamWrites(t *testing.T) {
	big := strings.Repeat("a", 150<<10)
	for _, row := range []struct {
		name string
		cfg  sse.StreamConfig
		do   func(s *sse.Stream) error
		want []string
	}{
		{"queue waits", sse.StreamConfig{}, func(s *sse.Stream) error {
			return errors.Join(s.Queue(ev("", "1", "")), s.Queue(ev("", "2", "")))
		}, nil},
		{"flush writes all at once", sse.StreamConfig{}, func(s *sse.Stream) error {
			return errors.Join(s.Queue(ev("", "1", "")), s.Queue(ev("", "2", "")), s.Flush())
		}, []string{"deadline true", "write 18", "flush"}},
		{"a lot is flushed by itself", sse.StreamConfig{}, func(s *sse.Stream) error {
			return errors.Join(s.Queue(ev("", big[:32<<10-9], "")), s.Queue(ev("", big[:100], "")))
		}, []string{"deadline true", "write 32875", "flush"}},
		{"64 KiB for each deadline", sse.StreamConfig{}, func(s *sse.Stream) error { return s.Send(ev("", big, "")) },
			[]string{"deadline true", "write 65536", "deadline true", "write 65536", "deadline true", "write 22536", "flush"}},
		{"no deadlines", sse.StreamConfig{WriteTimeout: -1}, func(s *sse.Stream) error { return s.Send(ev("", "1", "")) },
			[]string{"write 9", "flush"}},
		{"without a heartbeat no deadline outlasts its write", sse.StreamConfig{Heartbeat: -1},
			func(s *sse.Stream) error { return s.Send(ev("", "1", "")) },
			[]string{"deadline true", "write 9", "flush", "deadline false"}},
		{"a rejected event does not affect the others", sse.StreamConfig{}, func(s *sse.Stream) error {
			first, refused := s.Queue(ev("", "1", "")), s.Queue(ev("a\nb", "2", ""))
			if !errors.As(refused, new(*sse.FieldError)) {
				return errors.New("injection was not refused")
			}
			return errors.Join(first, s.Send(ev("", "3", "")))
		}, []string{"deadline true", "write 18", "flush"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := &recorded{wrapped{ResponseWriter: httptest.NewRecorder()}}
			s, err := sse.NewStream(w, row.cfg)
			require.NoError(t, err)
			require.NoError(t, row.do(s))
			require.Equal(t, row.want, w.calls)
			require.NoError(t, s.Close())
		})
	}
}

func TestStreamQueueFunc(t *testing.T) {
	failed := errors.New("no such value")
	add := func(text string) func([]byte) ([]byte, error) {
		return func(dst []byte) ([]byte, error) { return append(dst, text...), nil }
	}
	big := strings.Repeat("a", 20<<10)
	for _, row := range []struct {
		name string
		data func([]byte) ([]byte, error)
		want string
		err  error
	}{
		{"appended", add("a"), "data: a\n\n", nil},
		{"nothing appended", add(""), "data: \n\n", nil},
		{"nil", func([]byte) ([]byte, error) { return nil, nil }, "data: \n\n", nil},
		{"line breaks", add("a\nb\rc\r\n"), "data: a\ndata: b\ndata: c\ndata: \n\n", nil},
		{"more than there is room", add(big), "data: " + big + "\n\n", nil},
		{"a slice of its own", func([]byte) ([]byte, error) { return []byte("own"), nil }, "data: own\n\n", nil},
		{"a part of what was appended", func(dst []byte) ([]byte, error) { return append(dst, "--part"...)[2:], nil }, "data: part\n\n", nil},
		{"an error", func(dst []byte) ([]byte, error) { return append(dst, "half"...), failed }, "", failed},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := httptest.NewRecorder()
			s, err := sse.NewStream(w, sse.StreamConfig{})
			require.NoError(t, err)
			require.NoError(t, s.Queue(ev("", "before", "")))
			got := s.QueueFunc(sse.Event{Type: "t", ID: "1"}, row.data)
			require.Equal(t, row.err, got)
			require.NoError(t, s.Queue(ev("", "after", "")))
			require.NoError(t, s.Close())
			want := row.want
			if want != "" {
				want = "event: t\nid: 1\n" + want
			}
			require.Equal(t, "data: before\n\n"+want+"data: after\n\n", w.Body.String())
			require.Equal(t, sse.ErrClosed, s.QueueFunc(sse.Event{}, add("")))
		})
	}
	t.Run("injection", func(t *testing.T) {
		s, err := sse.NewStream(httptest.NewRecorder(), sse.StreamConfig{})
		require.NoError(t, err)
		defer s.Close()
		require.ErrorAs(t, s.QueueFunc(sse.Event{Type: "\r"}, add("a")), new(*sse.FieldError))
	})
}

func TestStreamQueueFuncPanic(t *testing.T) {
	w := httptest.NewRecorder()
	s, err := sse.NewStream(w, sse.StreamConfig{})
	require.NoError(t, err)
	require.NoError(t, s.Queue(ev("", "before", "")))
	require.Panics(t, func() {
		_ = s.QueueFunc(sse.Event{Type: "t"}, func(dst []byte) ([]byte, error) {
			panic(string(append(dst, "half"...)))
		})
	})
	require.NoError(t, s.Send(ev("", "after", "")), "the stream must not stay locked")
	require.NoError(t, s.Close())
	require.Equal(t, "data: before\n\ndata: after\n\n", w.Body.String())
}

func TestStreamClose(t *testing.T) {
	w := httptest.NewRecorder()
	s, err := sse.NewStream(w, sse.StreamConfig{})
	require.NoError(t, err)
	require.NoError(t, s.Queue(ev("", "a", "")))
	require.NoError(t, s.Close())
	require.NoError(t, s.Close())
	for name, err := range map[string]error{
		"queue": s.Queue(ev("", "b", "")), "send": s.Send(ev("", "b", "")), "flush": s.Flush(), "comment": s.Comment("b"),
	} {
		require.ErrorIs(t, err, sse.ErrClosed, name)
	}
	require.Equal(t, "data: a\n\n", w.Body.String())
}

func TestStreamClientDisconnects(t *testing.T) {
	protocols(t, func(t *testing.T, http2 bool) {
		var causes []error
		ended := make(chan error)
		do := serve(t, http2, func(w http.ResponseWriter, r *http.Request) {
			_, cancel := context.WithCancelCause(r.Context())
			s, err := sse.NewStream(w, sse.StreamConfig{OnError: func(err error) {
				causes = append(causes, err)
				cancel(err)
			}})
			require.NoError(t, err)
			require.NoError(t, s.Send(ev("", "a", "")))
			<-r.Context().Done()
			for err == nil { // the first writes may still fill the kernel's buffers
				err = s.Send(ev("", strings.Repeat("b", 60<<10), ""))
			}
			require.Equal(t, err, s.Send(ev("", "c", "")), "the error stays")
			require.Equal(t, err, s.Flush())
			require.Equal(t, err, s.Comment("d"))
			require.Equal(t, err, s.Close())
			require.ErrorIs(t, s.Flush(), sse.ErrClosed)
			ended <- err
		})
		res := do()
		_, err := sse.NewDecoder(res.Body).Next()
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		err = <-ended
		require.Equal(t, []error{err}, causes, "OnError is called once")
	})
}

func TestStreamAllocatesNothing(t *testing.T) {
	s, err := sse.NewStream(sink{http.Header{}}, sse.StreamConfig{})
	require.NoError(t, err)
	defer s.Close()
	require.Zero(t, testing.AllocsPerRun(200, func() {
		if s.Send(token) != nil || s.Queue(token) != nil || s.QueueFunc(token, func(dst []byte) ([]byte, error) {
			return append(dst, token.Data...), nil
		}) != nil {
			panic("the sink is full")
		}
	}))
}
