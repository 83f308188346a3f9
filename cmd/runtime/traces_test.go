package main_test

import (
	"compress/gzip"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// collector receives spans with OTLP over HTTP.
type collector struct {
	url string

	mu    sync.Mutex // guards spans
	spans []*tracepb.Span
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{}
	c.url = serveHTTP(t, c).URL
	return c
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		body, _ = gzip.NewReader(r.Body)
	}
	data, err := io.ReadAll(body)
	var request coltrace.ExportTraceServiceRequest
	if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(data, &request) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range request.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			c.spans = append(c.spans, scope.Spans...)
		}
	}
}

// span returns the only span with the name whose attributes contain the pairs.
func (c *collector) span(t *testing.T, name string, pairs ...string) *tracepb.Span {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	var found []*tracepb.Span
	var names []string
	for _, span := range c.spans {
		names = append(names, span.Name)
		matches := span.Name == name
		for i := 0; i+1 < len(pairs); i += 2 {
			matches = matches && value(span, pairs[i]) == pairs[i+1]
		}
		if matches {
			found = append(found, span)
		}
	}
	require.Len(t, found, 1, "%s %q of %q", name, pairs, names)
	return found[0]
}

// value returns an attribute as a text, or "".
func value(span *tracepb.Span, key string) string {
	for _, a := range span.Attributes {
		if a.Key != key {
			continue
		}
		switch v := a.Value.Value.(type) {
		case *common.AnyValue_StringValue:
			return v.StringValue
		case *common.AnyValue_IntValue:
			return fmt.Sprint(v.IntValue)
		case *common.AnyValue_ArrayValue:
			return v.ArrayValue.Values[0].GetStringValue()
		}
	}
	return ""
}

// parentage is the traceparent of the requests below a span.
func parentage(span *tracepb.Span) string {
	return "00-" + hex.EncodeToString(span.TraceId) + "-" + hex.EncodeToString(span.SpanId) + "-01"
}

const tracedYAML = `
agents:
  - id: a
    name: Ada
    model: m
    provider: {protocol: anthropic, baseUrl: "{upstream}", apiKey: key}
    systemPrompt: Planted prompt.
    allowedTools: [Task, mcp__local, mcp__web]
    mcpServers:
      local: %s
      web: {transport: http, url: "{web}"}
    subagents:
      digger: {description: Digs., prompt: You dig.}
`

var tracedStory = cast{
	"planted question": {
		modeltest.Stream(modeltest.Text("planted text"), use("local", "mcp__local__trace", `{"text":"planted input"}`), use("web", "mcp__web__trace", `{"text":"2"}`),
			use("task", "Task", `{"description":"d","prompt":"dig","subagent_type":"digger"}`), use("rm", "Bash", `{"command":"planted command"}`), use("none", "Invented", `{}`)),
		says("planted answer"),
	},
	"dig":  {says("planted finding")},
	"hit":  {modeltest.Stream(modeltest.Text("yes"), modeltest.Usage(model.Usage{InputTokens: 7, CacheReadInputTokens: 90, CacheCreationInputTokens: 3}))},
	"fail": {modeltest.Status(http.StatusTooManyRequests)},

	"bound": {says("No.")},
}

// newTraced starts a runtime that exports its spans to the endpoint.
func newTraced(t *testing.T, endpoint string, env ...string) *stage {
	t.Helper()
	s := newStage(t, tracedStory, fmt.Sprintf(tracedYAML, fmt.Sprintf(stdioServer, "tools")))
	s.env = append(s.env, "OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
	s.env = append(s.env, env...)
	s.start()
	return s
}

// request executes a run with a trace of the caller.
func (s *stage) request(message, traceparent string) string {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.URL+"/v1/agents/a/runs",
		strings.NewReader(fmt.Sprintf(`{"message":%q,"stream":"block","metadata":{"team":"blue"}}`, message)))
	require.NoError(s.t, err)
	req.Header.Set("Traceparent", traceparent)
	res, err := oneWay().Do(req)
	require.NoError(s.t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(s.t, err)
	require.Equal(s.t, http.StatusOK, res.StatusCode)
	return string(text)
}

// stop ends the runtime, which exports the last spans.
func (s *stage) stop() {
	s.t.Helper()
	require.NoError(s.t, s.Cmd.Process.Signal(syscall.SIGTERM))
	s.Wait(s.t)
}

const caller0 = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// One trace leads from the caller through the run, its model, its tools and its subagent to the
// upstream and the MCP servers.
func TestTraceOfARun(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	s := newTraced(t, c.url)
	events := s.request("planted question", caller0)
	s.stop()

	request := c.span(t, "POST /v1/agents/:agentId/runs")
	require.Equal(t, caller0, "00-"+hex.EncodeToString(request.TraceId)+"-"+hex.EncodeToString(request.ParentSpanId)+"-01")
	require.Equal(t, "200", value(request, "http.response.status_code"))
	run := c.span(t, "invoke_agent Ada")
	require.Equal(t, request.SpanId, run.ParentSpanId)
	task := c.span(t, "execute_tool Task")
	sub := c.span(t, "invoke_agent digger")
	first := c.span(t, "chat m", "gen_ai.response.finish_reasons", "tool_use")
	local := c.span(t, "execute_tool mcp__local__trace")
	web := c.span(t, "execute_tool mcp__web__trace")
	require.Equal(t, task.SpanId, sub.ParentSpanId)
	for _, span := range []*tracepb.Span{first, task, local, web, c.span(t, "execute_tool Bash"), c.span(t, "execute_tool other")} {
		require.Equal(t, run.SpanId, span.ParentSpanId, span.Name)
	}
	c.mu.Lock()
	for _, span := range c.spans {
		require.Equal(t, request.TraceId, span.TraceId, span.Name)
		for _, a := range span.Attributes {
			require.NotContains(t, a.String(), "lanted", "%s without the setting", span.Name)
		}
	}
	c.mu.Unlock()

	for key, want := range map[string]string{
		"gen_ai.operation.name": "invoke_agent", "gen_ai.provider.name": "anthropic", "gen_ai.agent.id": "a", "gen_ai.agent.name": "Ada",
		"gen_ai.request.model": "m", "gen_ai.usage.input_tokens": "30", "agenthost.run.metadata.team": "blue", "error.type": "",
	} {
		require.Equal(t, want, value(run, key), key)
	}
	require.NotEmpty(t, value(run, "gen_ai.conversation.id"))
	for key, want := range map[string]string{
		"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.response.model": "modeltest", "gen_ai.usage.output_tokens": "5",
	} {
		require.Equal(t, want, value(first, key), key)
	}
	require.Equal(t, tracepb.Span_SPAN_KIND_CLIENT, first.Kind)
	require.Equal(t, "local", value(local, "gen_ai.tool.call.id"))
	require.Equal(t, "permission_denied", value(c.span(t, "execute_tool Bash"), "error.type"))
	require.Equal(t, tracepb.Status_STATUS_CODE_ERROR, c.span(t, "execute_tool Bash").Status.Code)
	require.Equal(t, "Invented", value(c.span(t, "execute_tool other"), "gen_ai.tool.name"))

	require.Equal(t, parentage(first), s.up.Requests()[0].Header.Get("Traceparent"))
	require.Contains(t, events, `"output":"`+parentage(local)+`"`, "the message over stdio has the trace")
	require.Contains(t, events, `"output":"`+parentage(web)+" "+parentage(web)+`"`, "the message and the request over HTTP have the trace")
}

// Tokens of a cache are input tokens too. A span has no attribute for a cache that was not used.
func TestTraceOfCachedTokens(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	s := newTraced(t, c.url)
	s.request("hit", caller0)
	s.request("dig", caller0)
	s.stop()
	for _, name := range []string{"chat m", "invoke_agent Ada"} {
		hit := c.span(t, name, "gen_ai.usage.input_tokens", "100")
		require.Equal(t, "90", value(hit, "gen_ai.usage.cache_read.input_tokens"))
		require.Equal(t, "3", value(hit, "gen_ai.usage.cache_creation.input_tokens"))
		dig := c.span(t, name, "gen_ai.usage.input_tokens", "10")
		require.Empty(t, value(dig, "gen_ai.usage.cache_read.input_tokens"))
		require.Empty(t, value(dig, "gen_ai.usage.cache_creation.input_tokens"))
	}
}

// Content is exported only with the setting, which is that of the specification.
func TestTraceContent(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	s := newTraced(t, c.url, "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")
	s.request("planted question", caller0)
	s.stop()
	first := c.span(t, "chat m", "gen_ai.response.finish_reasons", "tool_use")
	require.JSONEq(t, `[{"role":"user","parts":[{"type":"text","content":"planted question"}]}]`, value(first, "gen_ai.input.messages"))
	require.Contains(t, value(first, "gen_ai.system_instructions"), "Planted prompt.")
	require.Contains(t, value(first, "gen_ai.output.messages"), `{"type":"text","content":"planted text"}`)
	require.JSONEq(t, `{"text":"planted input"}`, value(c.span(t, "execute_tool mcp__local__trace"), "gen_ai.tool.call.arguments"))
	require.Equal(t, "planted finding", value(c.span(t, "execute_tool Task"), "gen_ai.tool.call.result"))
}

// A failed call of the model sets the status of its span, of the run and of nothing else.
func TestTraceOfAFailedRun(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	s := newTraced(t, c.url)
	s.request("fail", caller0)
	s.stop()
	for _, name := range []string{"chat m", "invoke_agent Ada"} {
		span := c.span(t, name)
		require.Equal(t, "rate_limit", value(span, "error.type"), name)
		require.Equal(t, tracepb.Status_STATUS_CODE_ERROR, span.Status.Code, name)
	}
	require.NotEqual(t, tracepb.Status_STATUS_CODE_ERROR, c.span(t, "POST /v1/agents/:agentId/runs").Status.GetCode())
}

// An output that is not valid is the error of its run, not of the call of the model.
func TestTraceOfAnInvalidOutput(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	s := newTraced(t, c.url)
	req := wire.RunRequest{Message: "bound", MaxTurns: new(1), OutputSchema: json.RawMessage(`{"type":"object"}`)}
	require.True(t, final(t, s.run("a", req)).IsError)
	s.stop()
	require.Equal(t, "output_invalid", value(c.span(t, "invoke_agent Ada"), "error.type"))
	require.Empty(t, value(c.span(t, "chat m"), "error.type"))
}

// Runs do not depend on the receiver of their spans.
func TestCollectorIsAway(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	mute := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	t.Cleanup(mute.Close)
	t.Cleanup(func() { close(release) })
	for name, endpoint := range map[string]string{"refuses": "http://127.0.0.1:1", "mute": mute.URL} {
		t.Run(name, func(t *testing.T) {
			s := newTraced(t, endpoint)
			for range 3 {
				require.Equal(t, "planted finding", *final(t, s.run("a", wire.RunRequest{Message: "dig"})).Result)
			}
			s.stop()
		})
	}
}

// Without an endpoint, no header is sent, whatever the caller sends.
func TestTracesAreOffByDefault(t *testing.T) {
	t.Parallel()
	s := newTraced(t, "")
	s.request("dig", caller0)
	require.Empty(t, s.up.Requests()[0].Header.Get("Traceparent"))
}

// The span of a run with answers has a link to the run that waited for them.
func TestTraceOfAnAnswer(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	s := newStage(t, cast{"go": append(tool("Bash", `{"command":"echo one"}`), says("Done."))}, waitsYAML)
	s.env = append(s.env, "OTEL_EXPORTER_OTLP_ENDPOINT", c.url)
	s.start()
	first := s.ask()
	second, err := s.api().Complete(t.Context(), "a", approval(first))
	require.NoError(t, err)
	s.stop()
	waited := c.span(t, "invoke_agent a", "agenthost.run.id", first.RunID)
	require.Empty(t, waited.Links)
	links := c.span(t, "invoke_agent a", "agenthost.run.id", second.RunID).Links
	require.Len(t, links, 1)
	require.Equal(t, waited.TraceId, links[0].TraceId)
	require.Equal(t, waited.SpanId, links[0].SpanId)
}
