package sse_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/sse"
)

// sourceOf returns a source of a server, whose nth request answer handles.
func sourceOf(t *testing.T, answer func(n int, w http.ResponseWriter, r *http.Request)) sse.Source {
	t.Helper()
	n := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n++ // the requests follow one another
		answer(n, w, r)
	}))
	t.Cleanup(server.Close)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)
	require.NoError(t, err)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	return sse.Source{Request: req, Client: client, MinWait: time.Millisecond}
}

func stream(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	_, _ = w.Write([]byte(text))
}

func collect(ctx context.Context, s sse.Source) (got []string, err error) {
	for event, err := range s.Events(ctx) {
		if err != nil {
			return got, err
		}
		got = append(got, event.ID+":"+string(event.Data))
	}
	return got, nil
}

// A stream continues after each end, with the last id, and ends with 204.
func TestSourceContinues(t *testing.T) {
	t.Parallel()
	var ids []string
	s := sourceOf(t, func(n int, w http.ResponseWriter, r *http.Request) {
		ids = append(ids, strings.Join(r.Header.Values("Last-Event-ID"), ","))
		switch n {
		case 1:
			stream(w, "retry: 1\nid: 1\ndata: a\n\nid: 2\ndata: b\n\nid: 3\ndata: cut")
		case 2:
			w.WriteHeader(http.StatusServiceUnavailable)
		case 3:
			w.WriteHeader(http.StatusTooManyRequests)
		case 4:
			panic(http.ErrAbortHandler)
		case 5:
			stream(w, "data: without an id\n\n")
		case 6:
			stream(w, "id: a\x01b\ndata: an id that a header cannot have\n\n")
		case 7:
			stream(w, "id: ü\n\ndata: c\n\n")
		case 8:
			stream(w, "id: a\tb\ndata: d\n\n")
		case 9:
			stream(w, "id: c\x7f\ndata: e\n\n")
		default:
			w.WriteHeader(http.StatusNoContent)
		}
	})
	got, err := collect(t.Context(), s)
	require.NoError(t, err)
	require.Equal(t, []string{"1:a", "2:b", "2:without an id", "a\x01b:an id that a header cannot have", "ü:c", "a\tb:d", "c\x7f:e"}, got)
	require.Equal(t, []string{"", "2", "2", "2", "2", "2", "2", "ü", "a\tb", "a\tb"}, ids)
}

// An empty id removes the last one, also that of the request. An incomplete block removes nothing.
func TestSourceForgetsTheID(t *testing.T) {
	t.Parallel()
	var ids []string
	s := sourceOf(t, func(n int, w http.ResponseWriter, r *http.Request) {
		ids = append(ids, strings.Join(r.Header.Values("Last-Event-ID"), ","))
		streams := []string{
			"retry: 1\ndata: a\n\nid", "id\ndata: b\n\n", "id: 7\n\ndata: c\n\nid:\n", "id:\n\n",
			"\ufeffid: 8\ndata: d\n\nid: 9\x00\ndata: e\n\n",
		}
		if n > len(streams) {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		stream(w, streams[n-1])
	})
	s.Request.Header.Set("Last-Event-ID", "5")
	got, err := collect(t.Context(), s)
	require.NoError(t, err)
	require.Equal(t, []string{"5:a", ":b", "7:c", "8:d", "8:e"}, got)
	require.Equal(t, []string{"5", "5", "", "7", "", "8"}, ids)
	require.Equal(t, "5", s.Request.Header.Get("Last-Event-ID"), "the request of the caller is unchanged")
}

// Parameters of the type do not count, and a redirect keeps the id.
func TestSourceAcceptsWhatBrowsersAccept(t *testing.T) {
	t.Parallel()
	types := []string{
		"text/event-stream", "Text/Event-Stream;charset=utf-8;charset=utf-8", "text/event-stream ; x", "text/event-stream; charset=latin1",
	}
	n := 0
	s := sourceOf(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		require.Equal(t, "text/event-stream", r.Header.Get("Accept"))
		require.Equal(t, "no-cache", r.Header.Get("Cache-Control"))
		switch {
		case n == len(types):
			w.WriteHeader(http.StatusNoContent)
		case r.URL.Path == "/":
			http.Redirect(w, r, "/moved", http.StatusFound)
		default:
			n++
			w.Header().Set("Content-Type", types[n-1])
			fmt.Fprintf(w, "retry: 1\nid: %d\ndata: %s\n\n", n, r.Header.Get("Last-Event-ID"))
		}
	})
	s.Request.URL.Path = "/"
	got, err := collect(t.Context(), s)
	require.NoError(t, err)
	require.Equal(t, []string{"1:", "2:1", "3:2", "4:3"}, got)
}

// silent is a server whose responses and streams stop. It uses the clock of its test.
type silent struct {
	requests int
	respond  func(n int, ctx context.Context) (*http.Response, error)
}

func (s *silent) RoundTrip(r *http.Request) (*http.Response, error) {
	s.requests++
	return s.respond(s.requests, r.Context())
}

// A connection without a byte is replaced. Comments and slow callers are no silence.
func TestSourceIsIdle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		transport := &silent{}
		transport.respond = func(n int, ctx context.Context) (*http.Response, error) {
			r, w := io.Pipe()
			res := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: r}
			context.AfterFunc(ctx, func() { _ = w.CloseWithError(context.Cause(ctx)) })
			switch n {
			case 1: // no response
				<-ctx.Done()
				return nil, ctx.Err()
			case 2: // an event, heartbeats, an event, silence
				go func() {
					_, _ = io.WriteString(w, "id: 1\ndata: a\n\n")
					for range 10 {
						<-time.After(15 * time.Second)
						_, _ = io.WriteString(w, ":\n\n")
					}
					_, _ = io.WriteString(w, "data: b\n\n")
				}()
			case 3:
				go func() { _, _ = io.WriteString(w, "data: c\n\n") }()
			}
			return res, nil
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/", http.NoBody)
		require.NoError(t, err)
		s := sse.Source{Request: req, Client: &http.Client{Transport: transport}, IdleTimeout: 20 * time.Second, Attempts: 2}
		var got []string
		var last error
		for event, err := range s.Events(t.Context()) {
			if last = err; err == nil {
				got = append(got, event.ID+":"+string(event.Data))
				<-time.After(time.Minute) // a slow caller
			}
		}
		require.Equal(t, []string{"1:a", "1:b", "1:c"}, got)
		require.ErrorContains(t, last, "the server sent nothing for the idle timeout")
		require.Equal(t, 5, transport.requests)
	})
}

// A server cannot demand more connections than the caller permits.
func TestSourceWaits(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		text     string
		min, max time.Duration
		from, to int // connections in a minute
	}{
		"retry: 0":                  {"retry: 0\ndata: a\n\n", 0, 0, 96, 121},
		"retry: 1":                  {"retry: 1\ndata: a\n\n", 0, 0, 96, 121},
		"retry: 0 after a value":    {"retry: 9000\nretry: 0\ndata: a\n\n", 0, 0, 96, 121},
		"retry: 1000":               {"retry: 1000\ndata: a\n\n", 0, 0, 48, 61},
		"no retry":                  {"data: a\n\n", 0, 0, 16, 21},
		"a floor":                   {"retry: 0\ndata: a\n\n", 10 * time.Second, 0, 5, 7},
		"a ceiling":                 {"retry: 50000\ndata: a\n\n", 0, 5 * time.Second, 13, 13},
		"a ceiling below the floor": {"retry: 0\ndata: a\n\n", 10 * time.Second, 5 * time.Second, 13, 13},
		"no event":                  {"retry: 0\n\n", 0, 0, 6, 8}, // 0.5, 1, 2, 4, 8, 16 and 32 s, and a quarter more
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				transport := &silent{}
				transport.respond = func(int, context.Context) (*http.Response, error) {
					return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}},
						Body: io.NopCloser(strings.NewReader(row.text))}, nil
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute+time.Millisecond)
				defer cancel()
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/", http.NoBody)
				require.NoError(t, err)
				s := sse.Source{Request: req, Client: &http.Client{Transport: transport}, MinWait: row.min, MaxWait: row.max}
				_, err = collect(ctx, s)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.GreaterOrEqual(t, transport.requests, row.from)
				require.LessOrEqual(t, transport.requests, row.to)
			})
		})
	}
}

// MaxEvent bounds the data of an event and the line, whatever the fields are.
func TestSourceHasALimit(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		most int
		text string
		want string
	}{
		"at the limit":          {100, "data: " + strings.Repeat("x", 100), ""},
		"above it":              {100, "data: " + strings.Repeat("x", 101), "event of more than 100 bytes"},
		"in two lines":          {100, "data: " + strings.Repeat("x", 50) + "\ndata: " + strings.Repeat("x", 50), "event of more than 100 bytes"},
		"a comment":             {100, ":" + strings.Repeat("x", 5<<10), "line of more than"},
		"a name above the data": {1, "event: " + strings.Repeat("x", 4<<10) + "\nid: " + strings.Repeat("x", 4<<10) + "\ndata: x", ""},
		"above the default":     {6 << 20, "data: " + strings.Repeat("x", 5<<20), ""},
		"a longer name":         {6 << 20, "event: " + strings.Repeat("x", 5<<10), "event name of more than 4096 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := sourceOf(t, func(n int, w http.ResponseWriter, _ *http.Request) {
				if n > 1 {
					w.WriteHeader(http.StatusNoContent)
					return
				}
				stream(w, row.text+"\n\n")
			})
			s.MaxEvent = row.most
			s.MaxWait = time.Millisecond
			got, err := collect(t.Context(), s)
			if row.want == "" {
				require.NoError(t, err)
				require.Len(t, got, 1)
				return
			}
			var limit *sse.LimitError
			require.ErrorAs(t, err, &limit)
			require.ErrorContains(t, err, row.want)
		})
	}
}

// Streams without events, faults and limits end the iteration with an error.
func TestSourceFails(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		answer   func(w http.ResponseWriter)
		requests int
		want     string
	}{
		"not found":       {func(w http.ResponseWriter) { w.WriteHeader(404) }, 1, "404 Not Found"},
		"unauthorized":    {func(w http.ResponseWriter) { w.WriteHeader(401) }, 1, "401"},
		"not a stream":    {func(w http.ResponseWriter) { fmt.Fprint(w, "data: a\n\n") }, 1, `"text/plain"`},
		"an empty stream": {func(w http.ResponseWriter) { stream(w, "retry: 0\n\n") }, 3, "without an event"},
		"only comments":   {func(w http.ResponseWriter) { stream(w, "retry: 0\n:\n\n:\n\n") }, 3, "without an event"},
		"an id of 5 KiB":  {func(w http.ResponseWriter) { stream(w, "id: "+strings.Repeat("x", 5<<10)+"\ndata: a\n\n") }, 1, "id of more than 4096 bytes"},
		"an event of 5 MiB": {func(w http.ResponseWriter) {
			stream(w, strings.Repeat("data: "+strings.Repeat("x", 1<<20)+"\n", 5)+"\n")
		}, 1, "more than"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requests := 0
			s := sourceOf(t, func(_ int, w http.ResponseWriter, _ *http.Request) { requests++; row.answer(w) })
			s.Attempts = 3
			_, err := collect(t.Context(), s)
			require.ErrorContains(t, err, "read event stream: ")
			require.ErrorContains(t, err, row.want)
			require.Equal(t, row.requests, requests)
		})
	}
}

// The caller and its context end the iteration, during an event and while it waits.
func TestSourceIsStopped(t *testing.T) {
	t.Parallel()
	s := sourceOf(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		stream(w, "retry: 86400000\n\ndata: a\n\n")
		http.NewResponseController(w).Flush()
		if r.URL.Query().Has("hang") {
			<-r.Context().Done()
		}
	})
	for range s.Events(t.Context()) {
		break
	}
	cause := errors.New("enough")
	for _, query := range []string{"", "hang"} {
		s.Request.URL.RawQuery = query
		ctx, cancel := context.WithCancelCause(t.Context())
		var last error
		for event, err := range s.Events(ctx) {
			if err == nil {
				require.Equal(t, "a", string(event.Data))
				cancel(cause)
			}
			last = err
		}
		require.ErrorIs(t, last, cause)
		cancel(nil)
	}
}

func ExampleSource() {
	n := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch n++; n {
		case 1:
			stream(w, "retry: 1\nid: 7\ndata: first\n\n")
		case 2:
			stream(w, "data: after "+r.Header.Get("Last-Event-ID")+"\n\n")
		default:
			w.WriteHeader(http.StatusNoContent)
		}
	}))
	defer server.Close()
	client := server.Client()
	defer client.CloseIdleConnections()
	req, err := http.NewRequest(http.MethodGet, server.URL, http.NoBody)
	if err != nil {
		panic(err)
	}
	source := sse.Source{Request: req, Client: client, MinWait: time.Millisecond}
	for event, err := range source.Events(context.Background()) {
		if err != nil {
			panic(err)
		}
		fmt.Println(string(event.Data))
	}
	// Output:
	// first
	// after 7
}
