package main_test

import (
	"compress/gzip"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/seed93082962/agenthost/cmd/internal/daemontest"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
)

// collector receives spans with OTLP over HTTP, by their service and name.
type collector struct {
	url string

	mu    sync.Mutex // guards spans
	spans map[string][]*tracepb.Span
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{spans: map[string][]*tracepb.Span{}}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	c.url = server.URL
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
		service := ""
		for _, a := range resource.Resource.Attributes {
			if a.Key == "service.name" {
				service = a.Value.GetStringValue()
			}
		}
		for _, scope := range resource.ScopeSpans {
			for _, span := range scope.Spans {
				c.spans[service+": "+span.Name] = append(c.spans[service+": "+span.Name], span)
			}
		}
	}
}

// await waits for a span of a trace. The programs export every few seconds.
func (c *collector) await(t *testing.T, name, trace string) (found *tracepb.Span) {
	t.Helper()
	require.Eventually(t, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, span := range c.spans[name] {
			if hex.EncodeToString(span.TraceId) == trace {
				found = span
			}
		}
		return found != nil
	}, daemontest.Patience, 50*time.Millisecond, name)
	return found
}

// One trace leads from the client through the hub, its transactions and the runtime to the upstream.
// No span has the message or the answer.
func TestTraceOfAChat(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	up := modeltest.Start(t, modeltest.OpenAI, modeltest.Stream(modeltest.Text("planted answer"), modeltest.Stop("stop"),
		modeltest.Usage(model.Usage{InputTokens: 7, CacheReadInputTokens: 5, OutputTokens: 3})))
	p := openProduct(t, "OTEL_EXPORTER_OTLP_ENDPOINT", c.url)
	provider := p.send(http.StatusCreated, http.MethodPost, "/api/v1/admin/providers", `{"name":"up","protocol":"openai","baseUrl":"`+up.URL+`","apiKey":"k"}`)
	p.send(http.StatusCreated, http.MethodPost, adminAgents, `{"name":"helper","providerId":"`+provider.string(t, "id")+`","model":"m"}`)
	p.deploy("helper")

	const trace, parent = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.URL+p.session("helper")+"/messages", strings.NewReader(`{"message":"planted question"}`))
	require.NoError(t, err)
	req.Header = http.Header{
		"Authorization": {"Bearer " + p.token}, "Content-Type": {"application/json"}, "Traceparent": {"00-" + trace + "-" + parent + "-01"},
	}
	res := do(t, req)
	require.Equal(t, http.StatusOK, res.status, res.text)
	require.Contains(t, res.text, "planted answer")

	before := parent
	for _, name := range []string{
		"agenthost-hub: POST /api/v1/agents/:name/chat/sessions/:id/messages", "agenthost-hub: invoke_agent helper", "agenthost-hub: POST",
		"agenthost-runtime: POST /v1/agents/:agentId/runs", "agenthost-runtime: invoke_agent helper", "agenthost-runtime: chat m",
	} {
		span := c.await(t, name, trace)
		require.Equal(t, before, hex.EncodeToString(span.ParentSpanId), name)
		before = hex.EncodeToString(span.SpanId)
	}
	attributes := map[string]string{}
	for _, server := range []string{"hub", "runtime"} { // both have the same values
		for _, a := range c.await(t, "agenthost-"+server+": invoke_agent helper", trace).Attributes {
			for _, name := range []string{"gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens", "agenthost.run.id"} {
				if a.Key == name {
					attributes[server+" "+name] = a.Value.String()
				}
			}
		}
	}
	require.Contains(t, attributes["hub gen_ai.usage.input_tokens"], "12")
	for _, name := range []string{"gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens", "agenthost.run.id"} {
		require.NotEmpty(t, attributes["hub "+name], name)
		require.Equal(t, attributes["runtime "+name], attributes["hub "+name], name)
	}
	require.Equal(t, "00-"+trace+"-"+before+"-01", up.Requests()[0].Header.Get("Traceparent"))
	require.Equal(t, tracepb.Span_SPAN_KIND_CLIENT, c.await(t, "agenthost-hub: transaction", trace).Kind)
	p.remove("helper")
	require.Eventually(t, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.spans["agenthost-hub: deployment apply"]) > 0 && len(c.spans["agenthost-hub: deployment delete"]) > 0
	}, daemontest.Patience, 50*time.Millisecond)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, all := range c.spans {
		for _, span := range all {
			require.NotContains(t, span.String(), "planted")
		}
	}
}

// A collector that is away delays no chat.
func TestTracesWithoutCollector(t *testing.T) {
	t.Parallel()
	p := openProduct(t, "OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
	p.send(http.StatusCreated, http.MethodPost, adminAgents, `{"name":"helper","providerId":"demo","model":"demo"}`)
	p.deploy("helper")
	p.send(http.StatusOK, http.MethodPost, p.session("helper")+"/messages", `{"message":"hello"}`)
	p.remove("helper")
}
