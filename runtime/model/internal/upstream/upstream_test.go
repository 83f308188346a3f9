package upstream_test

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/internal/collect"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/internal/upstream"
	"github.com/seed93082962/agenthost/sse"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const key = "sk-test-0123456789abcdef"

// lines is a minimal wire format: an event is a text, except for the words below.
type lines struct{ stopped bool }

func (l *lines) Decode(parts []model.Part, ev sse.Event) ([]model.Part, error) {
	switch data := string(ev.Data); {
	case data == "ping":
		return parts, nil
	case data == "stop":
		return append(parts, model.Part{Kind: model.KindStop, StopReason: model.StopEndTurn}), nil
	case data == "finish":
		l.stopped = true
		return parts, nil
	case data[0] == '{':
		return parts, upstream.ParseFault(ev.Data)
	case data == "twice":
		parts = append(parts, model.Part{Kind: model.KindText, Text: data})
		fallthrough
	default:
		return append(parts, model.Part{Kind: model.KindText, Text: data}), nil
	}
}

func (l *lines) Finished() bool { return l.stopped }

func (l *lines) End(parts []model.Part) []model.Part {
	if l.stopped {
		parts = append(parts, model.Part{Kind: model.KindStop, StopReason: model.StopMaxTokens})
	}
	return parts
}

// client calls a handler over loopback.
func client(tb testing.TB, handler http.HandlerFunc) *upstream.Client {
	tb.Helper()
	srv := httptest.NewServer(handler)
	c := clientOf(tb, upstream.Config{BaseURL: srv.URL})
	tb.Cleanup(func() {
		c.CloseIdleConnections()
		srv.Close()
	})
	return c
}

func clientOf(tb testing.TB, cfg upstream.Config) *upstream.Client {
	tb.Helper()
	cfg.Name, cfg.Path, cfg.APIKey, cfg.AuthStyle = "test", "v1/call", key, upstream.AuthBearer
	c, err := upstream.New(cfg)
	require.NoError(tb, err)
	return c
}

// call is one call with a small body.
func call(ctx context.Context, c *upstream.Client, alive func()) iter.Seq2[model.Part, error] {
	return func(yield func(model.Part, error) bool) {
		c.Stream(ctx, &model.Request{Alive: alive}, map[string]string{"prompt": "hello"}, &lines{}, yield)
	}
}

// stream responses with events, all in one write.
func stream(events ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		for _, event := range events {
			_, _ = fmt.Fprintf(w, "data: %s\n\n", event)
		}
	}
}

// failure returns the [*model.Error] that a call must end with.
func failure(t *testing.T, c *upstream.Client) *model.Error {
	t.Helper()
	_, err := new(collect.Collector).Collect(call(t.Context(), c, nil))
	var coded *model.Error
	require.ErrorAs(t, err, &coded)
	require.NotContains(t, coded.Error(), key)
	require.NotContains(t, coded.Error(), "127.0.0.1")
	require.NotContains(t, coded.Error(), "\n")
	return coded
}

func TestRequest(t *testing.T) {
	var got *http.Request
	c := client(t, func(w http.ResponseWriter, r *http.Request) {
		got = r
		stream("stop")(w, r)
	})
	_, err := new(collect.Collector).Collect(call(t.Context(), c, nil))
	require.NoError(t, err)
	require.Equal(t, http.MethodPost, got.Method)
	require.Equal(t, "/v1/call", got.URL.Path)
	require.Equal(t, "Bearer "+key, got.Header.Get("Authorization"))
	require.Equal(t, "application/json", got.Header.Get("Content-Type"))
	require.Equal(t, "identity", got.Header.Get("Accept-Encoding"))
	require.Equal(t, int64(len(`{"prompt":"hello"}`)), got.ContentLength)
}

func TestPartsAndMore(t *testing.T) {
	gate := make(chan struct{})
	c := client(t, func(w http.ResponseWriter, r *http.Request) {
		// A ping directly after a part must not make the reader wait for the gate.
		stream("a", "twice", "ping", ": comment", "b", "ping")(w, r)
		w.(http.Flusher).Flush()
		<-gate
		stream("c", "finish")(w, r)
	})
	var got []string
	for p, err := range call(t.Context(), c, nil) {
		require.NoError(t, err)
		got = append(got, fmt.Sprint(p.Text, p.StopReason, " ", p.More))
		if p.Text == "b" {
			close(gate)
		}
	}
	require.Equal(t, []string{"a true", "twice true", "twice true", ": comment true", "b false"}, got[:5])
	require.Equal(t, "max_tokens false", got[len(got)-1])
}

func TestAliveIsCalledForWhatMakesNoPart(t *testing.T) {
	gate := make(chan struct{})
	c := client(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write([]byte(": keepalive\n\n"))
		w.(http.Flusher).Flush()
		select {
		case <-gate:
		case <-r.Context().Done():
		}
		stream("stop")(w, r)
	})
	calls := 0
	_, err := new(collect.Collector).Collect(call(t.Context(), c, func() {
		if calls++; calls == 2 { // the first one was for the header
			close(gate)
		}
	}))
	require.NoError(t, err)
}

func TestNewRejects(t *testing.T) {
	good := upstream.Config{Name: "test", BaseURL: "https://api.example.com/v1", APIKey: key, AuthStyle: upstream.AuthAPIKey}
	for name, change := range map[string]func(*upstream.Config){
		"no address":           func(c *upstream.Config) { c.BaseURL = "" },
		"another scheme":       func(c *upstream.Config) { c.BaseURL = "ftp://api.example.com" },
		"no host":              func(c *upstream.Config) { c.BaseURL = "https:///v1" },
		"only a path":          func(c *upstream.Config) { c.BaseURL = "/v1" },
		"not a URL":            func(c *upstream.Config) { c.BaseURL = "https://api example.com:x" },
		"a user":               func(c *upstream.Config) { c.BaseURL = "https://me:" + key + "@api.example.com" },
		"a fragment":           func(c *upstream.Config) { c.BaseURL += "#x" },
		"key of two lines":     func(c *upstream.Config) { c.APIKey += "\n" },
		"missing key":          func(c *upstream.Config) { c.APIKey = ""; c.KeyNeeded = true },
		"unknown auth style":   func(c *upstream.Config) { c.AuthStyle = "basic" },
		"auth style left open": func(c *upstream.Config) { c.AuthStyle = "" },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := good
			change(&cfg)
			_, err := upstream.New(cfg)
			require.ErrorContains(t, err, "test: ")
			require.NotContains(t, err.Error(), key)
		})
	}
	_, err := upstream.New(good)
	require.NoError(t, err)
}

func TestAuthStyles(t *testing.T) {
	for style, want := range map[string][2]string{
		upstream.AuthAPIKey: {key, ""},
		upstream.AuthBearer: {"", "Bearer " + key},
		upstream.AuthNone:   {"", ""},
	} {
		t.Run(style, func(t *testing.T) {
			var got [2]string
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				got = [2]string{r.Header.Get("X-Api-Key"), r.Header.Get("Authorization")}
				stream("stop")(w, r)
			}))
			defer srv.Close()
			c, err := upstream.New(upstream.Config{BaseURL: srv.URL, APIKey: key, AuthStyle: style, HTTPClient: srv.Client()})
			require.NoError(t, err)
			_, err = new(collect.Collector).Collect(call(t.Context(), c, nil))
			require.NoError(t, err)
			require.Equal(t, want, got)
		})
	}
}

func TestRedirectIsNotFollowed(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("the other host was called")
	}))
	defer other.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		c := client(t, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL, status)
		})
		got := failure(t, c)
		require.Equal(t, model.Code(runvalue.ErrorTypeServer), got.Code)
		require.Equal(t, status, got.Status)
		require.True(t, strings.HasPrefix(got.Message, "upstream responded with a redirect"))
	}
}
