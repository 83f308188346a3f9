package runtime_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed93082962/agenthost/internal/logtest"
	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/model"
	demomodel "github.com/seed93082962/agenthost/runtime/model/demo"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/wire"
	"github.com/seed93082962/agenthost/sse"
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // a third of the processor time is that of the collector otherwise
	goleak.VerifyTestMain(m)
}

// bench is a runtime behind a real server, with the state that tests inspect.
type bench struct {
	*runtime.Runtime
	url    string
	server *httptest.Server
	log    *logtest.Buffer
}

// serve starts a runtime with an agent "helper" at the upstream. change modifies its configuration.
func serve(t *testing.T, up *modeltest.Upstream, change func(*runtime.Config)) *bench {
	t.Helper()
	b := &bench{log: &logtest.Buffer{}}
	cfg := runtime.Config{
		Agents: []agent.Agent{helper(up)},
		CWD:    t.TempDir(),
		Logger: slog.New(slog.NewJSONHandler(b.log, nil)),

		AllowUnavailable: true, // many tests have one agent, and the reason why it is unavailable
	}
	if change != nil {
		change(&cfg)
	}
	var err error
	b.Runtime, err = runtime.New(t.Context(), cfg)
	require.NoError(t, err)
	b.server = httptest.NewServer(b.Runtime)
	b.url = b.server.URL
	t.Cleanup(func() {
		require.NoError(t, b.Close())
		b.server.CloseClientConnections()
		b.server.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	return b
}

// helper is an agent at a scripted upstream, or the demo model without one.
func helper(up *modeltest.Upstream) agent.Agent {
	a := agent.Agent{ID: "helper", Model: "m", Provider: agent.Provider{Protocol: agent.ProtocolDemo}}
	if up != nil {
		a.Provider = agent.Provider{Protocol: agent.ProtocolAnthropic, BaseURL: agent.Secret(up.URL), APIKey: "upstream-key"}
	}
	return a
}

// quick makes the demo model respond without delays.
func quick(c *runtime.Config) {
	c.NewModel = func(agent.Provider) (model.Model, error) { return demomodel.New(0), nil }
}

const runs = "/v1/agents/helper/runs"

// request sends a request, with headers in pairs. The caller closes the body.
func (b *bench) request(ctx context.Context, t *testing.T, method, path, body string, headers ...string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, b.url+path, strings.NewReader(body))
	require.NoError(t, err)
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		}
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	return res
}

// response has the complete body.
type response struct {
	status int
	header http.Header
	body   string
}

func (b *bench) do(t *testing.T, method, path, body string, headers ...string) response {
	t.Helper()
	res := b.request(t.Context(), t, method, path, body, headers...)
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return response{res.StatusCode, res.Header, strings.TrimSuffix(string(data), "\n")}
}

// blocking runs the helper with one JSON response.
func (b *bench) blocking(t *testing.T, body string) (response, wire.RunResponse) {
	t.Helper()
	res := b.do(t, "POST", runs, body, "Accept", "application/json")
	var run wire.RunResponse
	require.NoError(t, json.Unmarshal([]byte(res.body), &run), res.body)
	return res, run
}

// event is one event as it was received.
type event struct {
	name string
	data map[string]any
}

// stream is an open event stream.
type stream struct {
	t      *testing.T
	res    *http.Response
	events *sse.Decoder
}

// open starts a streamed run of the helper. It ends with the test.
func (b *bench) open(ctx context.Context, t *testing.T, body string, headers ...string) *stream {
	t.Helper()
	res := b.request(ctx, t, "POST", runs, body, headers...)
	t.Cleanup(func() { res.Body.Close() })
	require.Equal(t, http.StatusOK, res.StatusCode)
	require.Equal(t, "text/event-stream; charset=utf-8", res.Header.Get("Content-Type"))
	return &stream{t, res, sse.NewDecoder(res.Body)}
}

// next reads one event.
func (s *stream) next() event {
	s.t.Helper()
	ev, err := s.events.Next()
	require.NoError(s.t, err)
	got := event{name: ev.Type}
	require.NoError(s.t, json.Unmarshal(ev.Data, &got.data), "%s", ev.Data)
	return got
}

// until reads up to the first event of that name.
func (s *stream) until(name string) event {
	s.t.Helper()
	for {
		if ev := s.next(); ev.name == name {
			return ev
		}
	}
}

// rest reads to the end of the stream.
func (s *stream) rest() []event {
	s.t.Helper()
	var all []event
	for {
		ev, err := s.events.Next()
		if err == io.EOF {
			return all
		}
		require.NoError(s.t, err)
		got := event{name: ev.Type}
		require.NoError(s.t, json.Unmarshal(ev.Data, &got.data), "%s", ev.Data)
		all = append(all, got)
	}
}

func names(events []event) []string {
	var all []string
	for _, ev := range events {
		all = append(all, ev.name)
	}
	return all
}
