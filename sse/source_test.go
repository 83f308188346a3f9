package sse_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

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
	return sse.Source{Request: req, Client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
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
		default:
			w.WriteHeader(http.StatusNoContent)
		}
	})
	got, err := collect(t.Context(), s)
	require.NoError(t, err)
	require.Equal(t, []string{"1:a", "2:b", ":without an id", "a\x01b:an id that a header cannot have", "ü:c"}, got)
	require.Equal(t, []string{"", "2", "2", "2", "2", "2", "2", "ü"}, ids)
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
	source := sse.Source{Request: req, Client: client}
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
