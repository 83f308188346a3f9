package client_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/client"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/wire"
	"github.com/seed93082962/agenthost/sse"
)

func TestRejectedRuns(t *testing.T) {
	busy := make(chan struct{})
	up := modeltest.Start(t, modeltest.Anthropic, modeltest.Stream(modeltest.Gate(busy), modeltest.Text("Hi.")))
	c := connect(t, listen(t, host(t, up, func(c *runtime.Config) {
		c.Limits.MaxConcurrentRuns = 1
		broken := c.Agents[0]
		broken.ID, broken.SystemPromptFile = "broken", "nowhere.md"
		c.Agents = append(c.Agents, broken)
	})).URL)
	const id = "11111111-1111-4111-8111-111111111111"
	for ev, err := range c.Run(t.Context(), "helper", wire.RunRequest{Message: "hello", RunID: new(id)}) {
		require.NoError(t, err)
		if _, ok := ev.Payload.(*wire.System); !ok {
			continue
		}
		for name, row := range map[string]struct {
			agent string
			req   wire.RunRequest
			want  client.Error
		}{
			"no message": {"helper", wire.RunRequest{},
				client.Error{Status: 400, Body: wire.ErrorBody{Error: "Invalid request: message is required"}}},
			"no such agent": {"nobody", hello, client.Error{Status: 404, Body: wire.ErrorBody{Error: "Agent not found"}}},
			"unavailable":   {"broken", hello, client.Error{Status: 503, Body: wire.ErrorBody{Error: "Agent unavailable"}}},
			"conflict": {"helper", wire.RunRequest{Message: "hello", RunID: new(id)},
				client.Error{Status: 409, Body: wire.ErrorBody{Error: "Run ID conflict", RunID: id}}},
			"too many": {"helper", hello, client.Error{Status: 503, Body: wire.ErrorBody{Error: "Too many runs"},
				RetryAfter: time.Second}},
		} {
			t.Run(name, func(t *testing.T) {
				count := 0
				for ev, err := range c.Run(t.Context(), row.agent, row.req) {
					count++
					var refusal *client.Error
					require.ErrorAs(t, err, &refusal)
					require.Equal(t, row.want, *refusal)
					require.Nil(t, ev.Payload)
				}
				require.Equal(t, 1, count)
				answer, err := c.Complete(t.Context(), row.agent, row.req)
				var refusal *client.Error
				require.ErrorAs(t, err, &refusal)
				require.Equal(t, row.want, *refusal)
				require.Empty(t, answer.State)
			})
		}
		close(busy)
	}
}

// The response of a runtime that is not trusted takes little memory.
func TestLargeResponses(t *testing.T) {
	c := connect(t, listen(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, "["+strings.Repeat("{},", 1<<20)+"{}]") // the client may have left
	})).URL)
	for name, call := range map[string]func() error{
		"agents": func() error { _, err := c.Agents(t.Context()); return err },
		"agent":  func() error { _, err := c.Agent(t.Context(), "helper"); return err },
		"health": func() error { _, err := c.Health(t.Context()); return err },
		"ready":  func() error { return c.Ready(t.Context()) },
		"cancel": func() error { _, err := c.Cancel(t.Context(), "1"); return err },
	} {
		t.Run(name, func(t *testing.T) {
			require.ErrorContains(t, call(), "the body is longer than 1048576 bytes")
		})
	}
}

func TestResponseWithManyValues(t *testing.T) {
	c := connect(t, listen(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"errors":[`+strings.Repeat(`"",`, 1<<18)+`""]}`)
	})).URL)
	answer, err := c.Complete(t.Context(), "helper", hello)
	require.ErrorContains(t, err, "too many values")
	require.Empty(t, answer.Errors)
}

func TestErrorText(t *testing.T) {
	for want, err := range map[string]*client.Error{
		"runtime responded with 503: Too many runs": {Status: 503, Body: wire.ErrorBody{Error: "Too many runs"}},
		"runtime responded with 401: Unauthorized (invalid api key)": {Status: 401,
			Body: wire.ErrorBody{Error: "Unauthorized", Reason: "invalid api key"}},
		"runtime responded with 500: Internal error (request 0198-abc)": {Status: 500,
			Body: wire.ErrorBody{Error: "Internal error", RequestID: "0198-abc"}},
		"runtime responded with 502 Bad Gateway": {Status: 502},
		"runtime responded with 599":             {Status: 599},
	} {
		require.EqualError(t, err, want)
	}
}

func TestRetryAfter(t *testing.T) {
	for name, row := range map[string]struct {
		value    string
		low, top time.Duration
	}{
		"absent":       {"", 0, 0},
		"seconds":      {"7", 7 * time.Second, 7 * time.Second},
		"negative":     {"-7", 0, 0},
		"nonsense":     {"soon", 0, 0},
		"for ever":     {"9000000000000000000", 24 * time.Hour, 24 * time.Hour},
		"date":         {time.Now().Add(time.Hour).UTC().Format(http.TimeFormat), 59 * time.Minute, time.Hour},
		"date by then": {"Thu, 01 Jan 1970 00:00:00 GMT", 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			c := raw(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", row.value)
				w.WriteHeader(http.StatusServiceUnavailable)
			})
			_, err := c.Health(t.Context())
			var refusal *client.Error
			require.ErrorAs(t, err, &refusal)
			require.GreaterOrEqual(t, refusal.RetryAfter, row.low)
			require.LessOrEqual(t, refusal.RetryAfter, row.top)
		})
	}
}

// stream returns a handler that begins an event stream with an unknown event and then calls write.
func stream(write func(w http.ResponseWriter, r *http.Request)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		_, _ = io.WriteString(w, "event: news\ndata: {}\n\n")
		_ = http.NewResponseController(w).Flush()
		write(w, r)
	}
}

func TestIncompleteStreams(t *testing.T) {
	for name, row := range map[string]struct {
		write func(w http.ResponseWriter, r *http.Request)
		cause error
	}{
		"in good order": {func(http.ResponseWriter, *http.Request) {}, nil},
		"in mid-event": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "event: done\ndata: {}\n")
		}, nil},
		"connection closed": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, io.ErrUnexpectedEOF},
		"connection reset": {func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_ = conn.(*net.TCPConn).SetLinger(0)
				_ = conn.Close()
			}
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			payloads, err := all(t, raw(t, stream(row.write)), hello)
			require.ErrorIs(t, err, client.ErrIncomplete)
			if row.cause != nil {
				require.ErrorIs(t, err, row.cause)
			}
			require.Equal(t, []string{"news"}, names(payloads))
		})
	}
}

func TestInvalidEvents(t *testing.T) {
	payloads, err := all(t, raw(t, stream(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "event: result\ndata: {\"type\":\n\n")
	})), hello)
	require.ErrorContains(t, err, "read events of run: decode result event: ")
	require.Len(t, payloads, 1)

	var limit *sse.LimitError
	_, err = all(t, raw(t, stream(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "event: result\ndata: {\"x\":\"")
		_, _ = io.WriteString(w, strings.Repeat("x", runvalue.MaxData+128<<10))
		_, _ = io.WriteString(w, "\"}\n\n")
	})), hello)
	require.ErrorAs(t, err, &limit)
	require.NotErrorIs(t, err, client.ErrIncomplete)

	_, err = all(t, raw(t, stream(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "event: result\ndata: {\"permission_denials\":["+strings.Repeat("{},", 1<<18)+"{}]}\n\n")
	})), hello)
	require.ErrorContains(t, err, "read events of run: the JSON nests too deeply or has too many values")
}

// A field that a decoder stores until the end of its stream is short.
func TestNamesAndIDsOfEvents(t *testing.T) {
	for name, row := range map[string]struct {
		event string
		fault string // "" if the event is valid
	}{
		"a name":               {"event: " + strings.Repeat("a_.z", 16) + "\n", ""},
		"a name of 65 bytes":   {"event: " + strings.Repeat("a", 65) + "\n", "is not the name of an event"},
		"a name of 129 bytes":  {"event:" + strings.Repeat("a", 129) + "\n", "event name of more than 128 bytes"},
		"a name of 4 MiB":      {"event: " + strings.Repeat("a", 4<<20) + "\n", "event name of more than 128 bytes"},
		"no name":              {"", "is not the name of an event"},
		"an empty name":        {"event\n", "is not the name of an event"},
		"capital letters":      {"event: Done\n", "is not the name of an event"},
		"a null byte":          {"event: done\x00\n", "is not the name of an event"},
		"a line break":         {"event: done\u2028\n", "is not the name of an event"},
		"an id":                {"event: a\nid: " + strings.Repeat("é", 64) + "\n", ""},
		"an id of 129 bytes":   {"event: a\nid: " + strings.Repeat("1", 129) + "\n", "id of more than 128 bytes"},
		"an id of 4 MiB":       {"event: a\nid: " + strings.Repeat("1", 4<<20) + "\n", "id of more than 128 bytes"},
		"an id without data":   {"id: " + strings.Repeat("1", 129) + "\n\nevent: a\n", "id of more than 128 bytes"},
		"a name that is unset": {"event: " + strings.Repeat("a", 129) + "\nevent: a\n", "event name of more than 128 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			payloads, err := all(t, raw(t, stream(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, row.event+"data: {}\n\nevent: done\ndata: {}\n\n")
			})), hello)
			if row.fault == "" {
				require.NoError(t, err)
				require.Len(t, payloads, 3)
				return
			}
			require.ErrorContains(t, err, row.fault)
			require.NotErrorIs(t, err, client.ErrIncomplete)
			require.Len(t, payloads, 1)
			require.Less(t, len(err.Error()), 500)
		})
	}
}

// Streams reserve the memory of their decoders together, before they use it, and release it.
func TestMemoryOfAllStreamsIsReserved(t *testing.T) {
	const budget = 8 << 20
	var used, most atomic.Int64
	full := errors.New("no memory is left")
	release := make(chan struct{})
	srv := listen(t, stream(func(w http.ResponseWriter, r *http.Request) {
		if n := r.URL.Path; strings.HasPrefix(n, "/v1/agents/small") {
			_, _ = io.WriteString(w, strings.Repeat("event: a\ndata: {}\n\n", 10_000)+"event: done\ndata: {}\n\n")
			return
		}
		lines := strings.Repeat("data: "+strings.Repeat("1", 4000)+"\n", 1000)
		_, _ = io.WriteString(w, "event: a\n"+lines)
		_ = http.NewResponseController(w).Flush()
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	c, err := client.New(client.Config{BaseURL: srv.URL, Reserve: func(n int) error {
		sum := used.Add(int64(n))
		if n > 0 && sum > budget {
			used.Add(int64(-n))
			return full
		}
		for old := most.Load(); sum > old && !most.CompareAndSwap(old, sum); old = most.Load() {
		}
		return nil
	}})
	require.NoError(t, err)
	const streams = 10 // which would use 40 MiB
	errs := make(chan error, streams)
	for range streams {
		go func() {
			var last error
			for _, last = range c.Run(t.Context(), "large", hello) {
			}
			errs <- last
		}()
	}
	refused := 0
	for range streams - 2 { // at least one fits
		err := <-errs
		require.ErrorIs(t, err, full)
		require.NotErrorIs(t, err, client.ErrIncomplete)
		refused++
	}
	require.Less(t, used.Load(), int64(budget)+1)
	close(release)
	for range streams - refused {
		require.Error(t, <-errs, "the event is incomplete, or refused")
	}
	require.Zero(t, used.Load(), "everything is released")
	require.Greater(t, most.Load(), int64(budget)/2)
	for _, err := range c.Run(t.Context(), "small", hello) {
		require.NoError(t, err)
		require.Less(t, used.Load(), int64(64<<10))
	}
	require.Zero(t, used.Load())
}

func TestLargestEvent(t *testing.T) {
	text := strings.Repeat("x", runvalue.MaxData-len(`{"x":""}`))
	payloads, err := all(t, raw(t, stream(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "event: large\ndata: {\"x\":\""+text+"\"}\n\nevent: done\ndata: {}\n\n")
	})), hello)
	require.NoError(t, err)
	require.Len(t, payloads[1].(*wire.Unknown).Data, runvalue.MaxData)
}

func TestDoneEndsAStreamThatStaysOpen(t *testing.T) {
	c := raw(t, stream(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "event: done\ndata: {}\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	payloads, err := all(t, c, hello)
	require.NoError(t, err)
	require.Equal(t, []string{"news", "done"}, names(payloads))
}

func TestDoneEndsAStreamWithMoreData(t *testing.T) {
	c := raw(t, stream(func(w http.ResponseWriter, r *http.Request) {
		_, err := io.WriteString(w, "event: done\ndata: {}\n\n")
		for err == nil {
			_, err = io.WriteString(w, ": nothing but noise\n\n")
		}
	}))
	payloads, err := all(t, c, hello)
	require.NoError(t, err)
	require.Equal(t, []string{"news", "done"}, names(payloads))
}

func TestOtherServers(t *testing.T) {
	const page = "<html><body>Sign in</body></html>"
	for name, row := range map[string]struct {
		status          int
		kind            string
		stream, blocked string // the errors
	}{
		"page": {200, "text/html", `read response of runtime: its type is "text/html", not text/event-stream`,
			`read response of runtime: its type is "text/html", not application/json`},
		"no kind": {200, "", `read response of runtime: its type is "", not text/event-stream`,
			`read response of runtime: its type is "", not application/json`},
		"bad gateway": {502, "text/html", "runtime responded with 502 Bad Gateway", "runtime responded with 502 Bad Gateway"},
		"redirect":    {302, "text/html", "runtime responded with 302 Found", "runtime responded with 302 Found"},
		"nothing":     {204, "", "runtime responded with 204 No Content", `read response of runtime: its type is "", not application/json`},
	} {
		t.Run(name, func(t *testing.T) {
			c := raw(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header()["Content-Type"] = []string{row.kind}
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(row.status)
				_, _ = io.WriteString(w, page) // 204 allows none
			})
			_, err := all(t, c, hello)
			require.EqualError(t, err, row.stream)
			_, err = c.Complete(t.Context(), "helper", hello)
			require.EqualError(t, err, row.blocked)
		})
	}
}

func TestTheKeyFollowsNoRedirect(t *testing.T) {
	other := listen(t, http.NotFoundHandler())
	s := listen(t, http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	for name, hc := range map[string]*http.Client{"own": nil, "given": {Transport: s.Client().Transport}} {
		t.Run(name, func(t *testing.T) {
			c, err := client.New(client.Config{BaseURL: s.URL, APIKey: "planted", HTTPClient: hc})
			require.NoError(t, err)
			_, err = c.Complete(t.Context(), "helper", hello)
			require.EqualError(t, err, "runtime responded with 307 Temporary Redirect")
			require.Zero(t, other.connections.Load())
		})
	}
	require.Nil(t, s.Client().CheckRedirect)
}

func TestNoServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	c := connect(t, "http://"+l.Addr().String())
	_, err = all(t, c, hello)
	require.ErrorContains(t, err, "call runtime: ")
	var op *net.OpError
	require.ErrorAs(t, err, &op)
}

func TestMissingResponse(t *testing.T) {
	c := raw(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err := c.Health(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}
