package openai_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed93082962/agenthost/internal/logtest"
	"github.com/seed93082962/agenthost/internal/openapitest"
	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/protocol/openai"
	"github.com/seed93082962/agenthost/sse"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const key = "key-of-the-runtime"

// bench is a runtime with the protocol, behind a real server.
type bench struct {
	t   *testing.T
	rt  *runtime.Runtime
	url string // of the protocol
	log *logtest.Buffer

	memory *atomic.Int64 // that the protocol has reserved, of serveWith
}

// serve starts a runtime with an agent "helper" at the upstream, or with the demo model. change
// modifies its configuration.
func serve(t *testing.T, up *modeltest.Upstream, change func(*runtime.Config)) *bench {
	t.Helper()
	b := &bench{t: t, log: &logtest.Buffer{}}
	helper := agent.Agent{ID: "helper", Model: "m", Provider: agent.Provider{Protocol: agent.ProtocolDemo}}
	if up != nil {
		helper.Provider = agent.Provider{Protocol: agent.ProtocolAnthropic, BaseURL: agent.Secret(up.URL), APIKey: "upstream-key"}
	}
	cfg := runtime.Config{
		Agents: []agent.Agent{helper}, APIKeys: []string{key}, CWD: t.TempDir(), AllowUnavailable: true,
		Logger: slog.New(slog.NewJSONHandler(b.log, nil)),
	}
	cfg.Protocols = map[string]func(*runtime.Runtime) http.Handler{
		"/openai/v1": func(rt *runtime.Runtime) http.Handler {
			return openai.New(openai.Config{Host: rt, Logger: cfg.Logger})
		},
	}
	if change != nil {
		change(&cfg)
	}
	rt, err := runtime.New(t.Context(), cfg)
	require.NoError(t, err)
	server := httptest.NewServer(rt)
	b.rt, b.url = rt, server.URL+"/openai/v1"
	t.Cleanup(func() {
		require.NoError(t, rt.Close())
		server.CloseClientConnections()
		server.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	return b
}

// in returns the bench for a subtest.
func (b *bench) in(t *testing.T) *bench {
	of := *b
	of.t = t
	return &of
}

// open sends a request with headers in pairs, and the key if they have none. The caller closes the
// body.
func (b *bench) open(ctx context.Context, method, path, body string, headers ...string) *http.Response {
	b.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, b.url+path, strings.NewReader(body))
	require.NoError(b.t, err)
	req.Header.Set("Authorization", "Bearer "+key)
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		}
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	require.NoError(b.t, err)
	return res
}

// response has the complete body.
type response struct {
	status int
	header http.Header
	body   string
	json   map[string]any // of a body that is not a stream
	events []map[string]any
	done   bool // the stream has ended with [DONE]
}

func (b *bench) do(method, path, body string, headers ...string) response {
	b.t.Helper()
	res := b.open(b.t.Context(), method, path, body, headers...)
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	require.NoError(b.t, err)
	out := response{status: res.StatusCode, header: res.Header, body: string(data)}
	if strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		for event, err := range sse.NewDecoder(strings.NewReader(out.body)).Events() {
			require.NoError(b.t, err)
			require.False(b.t, out.done, "nothing follows [DONE]")
			if out.done = string(event.Data) == "[DONE]"; !out.done {
				var v map[string]any
				require.NoError(b.t, json.Unmarshal(event.Data, &v), "%s", event.Data)
				out.events = append(out.events, v)
			}
		}
		return out
	}
	if len(data) > 0 {
		require.NoError(b.t, json.Unmarshal(data, &out.json), "%s", data)
	}
	return out
}

// documents have the public schemas of the protocols, in which objects have no further members.
var documents = sync.OnceValues(func() ([]*openapitest.Document, error) {
	var list []*openapitest.Document
	for _, name := range []string{"chat", "responses"} {
		doc, err := openapitest.Load(openapitest.Config{File: "testdata/" + name + ".yaml"})
		if err != nil {
			return nil, err
		}
		list = append(list, doc)
	}
	return list, nil
})

// fits requires that a value is valid by a public schema.
func fits(t *testing.T, schema string, v any) {
	t.Helper()
	list, err := documents()
	require.NoError(t, err)
	for _, doc := range list {
		if doc.Components.Schemas[schema] != nil {
			require.NoError(t, doc.Fits(schema, v), "%v", v)
			return
		}
	}
	t.Fatalf("no schema %q", schema)
}

// chat sends a chat completion, and checks all that it returns against the public schemas.
func (b *bench) chat(body string, headers ...string) response {
	b.t.Helper()
	res := b.do("POST", "/chat/completions", body, headers...)
	switch {
	case res.status != http.StatusOK:
		fits(b.t, "ErrorResponse", res.json)
	case res.json != nil:
		fits(b.t, "CreateChatCompletionResponse", res.json)
	}
	for _, event := range res.events {
		if event["error"] != nil {
			fits(b.t, "ErrorResponse", event)
			continue
		}
		fits(b.t, "CreateChatCompletionStreamResponse", event)
		require.Equal(b.t, res.events[0]["id"], event["id"])
	}
	return res
}

// choice returns the choice of a chat completion, and its message.
func choice(t *testing.T, res response) (choice, message map[string]any) {
	t.Helper()
	require.Equal(t, http.StatusOK, res.status, res.body)
	list := res.json["choices"].([]any)
	require.Len(t, list, 1)
	choice = list[0].(map[string]any)
	return choice, choice["message"].(map[string]any)
}

// deltas returns the deltas of a stream, and its finish reasons.
func deltas(res response) (list []map[string]any, finish []string) {
	for _, event := range res.events {
		for _, c := range event["choices"].([]any) {
			choice := c.(map[string]any)
			list = append(list, choice["delta"].(map[string]any))
			if reason, ok := choice["finish_reason"].(string); ok {
				finish = append(finish, reason)
			}
		}
	}
	return list, finish
}

// text returns the content of a stream.
func text(res response) string {
	var all strings.Builder
	list, _ := deltas(res)
	for _, d := range list {
		content, _ := d["content"].(string)
		all.WriteString(content)
	}
	return all.String()
}

// errorOf returns the error of a response or of an event.
func errorOf(t *testing.T, body map[string]any) map[string]any {
	t.Helper()
	e, ok := body["error"].(map[string]any)
	require.True(t, ok, "%v", body)
	require.Len(t, body, 1)
	require.Len(t, e, 4)
	require.NotEmpty(t, e["message"])
	return e
}
