package sse_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/sse"
)

// pipes is a network of net.Pipe, so that a real server and client use the clock of synctest.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.closed); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	p.conns <- server
	return client, nil
}

// virtual starts a server with h in the bubble of t, and returns a function that sends a request.
func virtual(t *testing.T, http2 bool, h http.HandlerFunc) func() *http.Response {
	network := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	var protocols http.Protocols
	protocols.SetHTTP1(!http2)
	protocols.SetUnencryptedHTTP2(http2)
	srv := &http.Server{Handler: h, Protocols: &protocols, WriteTimeout: time.Second}
	served := make(chan error)
	go func() { served <- srv.Serve(network) }()
	client := &http.Client{Transport: &http.Transport{DialContext: network.dial, Protocols: &protocols}}
	t.Cleanup(func() {
		client.CloseIdleConnections()
		require.NoError(t, srv.Close())
		require.ErrorIs(t, <-served, http.ErrServerClosed)
	})
	return func() *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://pipe/", nil)
		require.NoError(t, err)
		res, err := client.Do(req)
		require.NoError(t, err)
		t.Cleanup(func() { res.Body.Close() })
		return res
	}
}

// bubbles is protocols with each test in its own bubble.
func bubbles(t *testing.T, name string, test func(t *testing.T, http2 bool)) {
	t.Run(name, func(t *testing.T) {
		protocols(t, func(t *testing.T, http2 bool) {
			synctest.Test(t, func(t *testing.T) { test(t, http2) })
		})
	})
}

func wait(d time.Duration) { <-time.After(d) }

func TestStreamHeartbeat(t *testing.T) {
	type arrival struct {
		after time.Duration
		line  string
	}
	for _, row := range []struct {
		name string
		cfg  sse.StreamConfig
		act  func(s *sse.Stream)
		want []arrival
	}{
		{"every 15 s", sse.StreamConfig{}, func(s *sse.Stream) { wait(50 * time.Second) },
			[]arrival{{15 * time.Second, ": ping"}, {30 * time.Second, ": ping"}, {45 * time.Second, ": ping"}}},
		{"after the last event", sse.StreamConfig{}, func(s *sse.Stream) {
			wait(10 * time.Second)
			_ = s.Send(ev("", "a", ""))
			wait(14 * time.Second)
			_ = s.Send(ev("", "b", ""))
			wait(20 * time.Second)
		}, []arrival{{10 * time.Second, "data: a"}, {24 * time.Second, "data: b"}, {39 * time.Second, ": ping"}}},
		{"of the caller's choice", sse.StreamConfig{Heartbeat: time.Hour}, func(s *sse.Stream) { wait(90 * time.Minute) },
			[]arrival{{time.Hour, ": ping"}}},
		{"takes what is queued along", sse.StreamConfig{}, func(s *sse.Stream) {
			_ = s.Queue(ev("", "a", ""))
			wait(20 * time.Second)
		}, []arrival{{15 * time.Second, "data: a"}, {15 * time.Second, ": ping"}}},
		{"a flush of nothing is no sign of life", sse.StreamConfig{}, func(s *sse.Stream) {
			wait(10 * time.Second)
			_ = s.Flush()
			wait(6 * time.Second)
		}, []arrival{{15 * time.Second, ": ping"}}},
		{"off", sse.StreamConfig{Heartbeat: -1}, func(s *sse.Stream) {
			wait(time.Hour)
			_ = s.Send(ev("", "a", ""))
		}, []arrival{{time.Hour, "data: a"}}},
		{"never after Close", sse.StreamConfig{}, func(s *sse.Stream) {
			_ = s.Close()
			wait(20 * time.Second)
		}, nil},
	} {
		bubbles(t, row.name, func(t *testing.T, http2 bool) {
			get := virtual(t, http2, func(w http.ResponseWriter, r *http.Request) {
				s, err := sse.NewStream(w, row.cfg)
				require.NoError(t, err)
				require.NoError(t, s.Flush())
				row.act(s)
				require.NoError(t, s.Close())
			})
			start := time.Now()
			var got []arrival
			lines := bufio.NewScanner(get().Body)
			for lines.Scan() {
				if lines.Text() != "" {
					got = append(got, arrival{time.Since(start), lines.Text()})
				}
			}
			require.NoError(t, lines.Err(), "the answer must end properly")
			require.Equal(t, row.want, got)
		})
	}
}

// A server's own WriteTimeout (one second here) does not end a stream, and the end of a stream does
// not end a quiet connection, which serves the next request.
func TestStreamOutlivesWriteTimeout(t *testing.T) {
	for name, heartbeat := range map[string]time.Duration{"heartbeat": 0, "no heartbeat": -1, "slow heartbeat": 2 * time.Minute} {
		bubbles(t, name, func(t *testing.T, http2 bool) {
			get := virtual(t, http2, func(w http.ResponseWriter, r *http.Request) {
				s, err := sse.NewStream(w, sse.StreamConfig{Heartbeat: heartbeat})
				require.NoError(t, err)
				require.NoError(t, s.Send(ev("", "a", "")))
				wait(3 * time.Minute)
				require.NoError(t, s.Send(ev("", "b", "")))
				wait(3 * time.Minute)
				require.NoError(t, s.Close())
			})
			for range 2 {
				out := drain(sse.NewDecoder(get().Body), false)
				require.Equal(t, outcome{Events: list(ev("", "a", ""), ev("", "b", "")), Err: io.EOF}, out)
				wait(time.Minute) // past the deadline that Close set
			}
		})
	}
}

func TestStreamSlowReaderIsProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		big := strings.Repeat("a", 1<<20)
		get := virtual(t, false, func(w http.ResponseWriter, r *http.Request) {
			s, err := sse.NewStream(w, sse.StreamConfig{})
			require.NoError(t, err)
			require.NoError(t, s.Send(ev("", big, "")))
			require.NoError(t, s.Close())
		})
		start := time.Now()
		body := get().Body
		slow := readFunc(func(p []byte) (int, error) {
			wait(time.Second) // for at most 4 KiB: 64 KiB take at least 16 s
			return body.Read(p[:min(len(p), 4<<10)])
		})
		got, err := sse.NewDecoder(slow).Next()
		require.NoError(t, err)
		require.Equal(t, big, string(got.Data))
		require.Greater(t, time.Since(start), 4*time.Minute)
	})
}

func TestStreamStalledReader(t *testing.T) {
	for _, row := range []struct {
		name string
		size int // of the event: the heartbeat sends what is queued
		want time.Duration
	}{{"in a send", 8 << 20, 30 * time.Second}, {"in a heartbeat", 30 << 10, 45 * time.Second}} {
		bubbles(t, row.name, func(t *testing.T, http2 bool) {
			if http2 && row.size < 1<<20 {
				return // HTTP/2 clients buffer that much without a read
			}
			start := time.Now()
			failed, ended := make(chan error, 2), make(chan error)
			get := virtual(t, http2, func(w http.ResponseWriter, r *http.Request) {
				s, err := sse.NewStream(w, sse.StreamConfig{OnError: func(err error) { failed <- err }})
				require.NoError(t, err)
				require.NoError(t, s.Flush())
				_ = s.Queue(ev("", strings.Repeat("a", row.size), ""))
				err = <-failed
				require.Equal(t, err, s.Close())
				ended <- err
			})
			get() // and stop reading
			err := <-ended
			require.Equal(t, row.want, time.Since(start))
			require.Error(t, err)
			if !http2 {
				require.ErrorIs(t, err, os.ErrDeadlineExceeded)
			}
			require.Empty(t, failed, "OnError is called once")
		})
	}
}

// The same over TCP, whose kernel buffers fill first.
func TestStreamStalledReaderTCP(t *testing.T) {
	ended := make(chan error, 2)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s, err := sse.NewStream(w, sse.StreamConfig{
			WriteTimeout: 50 * time.Millisecond,
			OnError:      func(err error) { ended <- err },
		})
		require.NoError(t, err)
		for err == nil {
			err = s.Send(ev("", strings.Repeat("a", 60<<10), ""))
		}
		require.Equal(t, err, s.Close())
		ended <- err
	}))
	srv.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		_ = c.(*net.TCPConn).SetWriteBuffer(4 << 10)
		return ctx
	}
	srv.Start()
	defer srv.Close()
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.(*net.TCPConn).SetReadBuffer(4<<10))
	_, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: stalled\r\n\r\n")
	require.NoError(t, err)
	first := <-ended
	require.ErrorIs(t, first, os.ErrDeadlineExceeded)
	require.Equal(t, first, <-ended)
}

func TestStreamHeartbeatDuringWrites(t *testing.T) {
	const writers, each = 4, 300
	pinged := make(chan struct{}) // the client has received a heartbeat
	do := serve(t, false, func(w http.ResponseWriter, r *http.Request) {
		s, err := sse.NewStream(w, sse.StreamConfig{Heartbeat: time.Microsecond})
		require.NoError(t, err)
		done := make(chan error)
		for id := range writers {
			go func() {
				var err error
				for i := 0; err == nil && i < each; i++ {
					err = s.Send(ev(strconv.Itoa(id), strconv.Itoa(i), ""))
				}
				done <- err
			}()
		}
		for range writers {
			require.NoError(t, <-done)
		}
		<-pinged // at the latest now that there are no writes
		require.NoError(t, s.Close())
		_, _ = io.WriteString(w, "event: closed\ndata\n\n") // races with a heartbeat that Close did not wait for
	})
	var next [writers]int
	watch := &pingWatch{r: do().Body, seen: pinged}
	out := drain(sse.NewDecoder(watch), false)
	require.Equal(t, io.EOF, out.Err)
	last := len(out.Events) - 1
	for _, got := range out.Events[:last] {
		id, err := strconv.Atoi(got.Type)
		require.NoError(t, err)
		require.Equal(t, strconv.Itoa(next[id]), string(got.Data))
		next[id]++
	}
	require.Equal(t, "closed", out.Events[last].Type)
}

// pingWatch closes seen after a whole heartbeat.
type pingWatch struct {
	r    io.Reader
	seen chan struct{}
	text string
	once sync.Once
}

func (w *pingWatch) Read(p []byte) (int, error) {
	const ping = ": ping\n\n"
	n, err := w.r.Read(p)
	w.text += string(p[:n])
	if strings.Contains(w.text, ping) {
		w.once.Do(func() { close(w.seen) })
	}
	w.text = w.text[max(0, len(w.text)-len(ping)):]
	return n, err
}
