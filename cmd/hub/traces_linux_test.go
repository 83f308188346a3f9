package main_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/seed93082962/agenthost/cmd/internal/daemontest"
	"github.com/seed93082962/agenthost/internal/otlptest"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
)

// One trace leads from the client through the hub, its transactions and the runtime to the
// upstream. No span has the message or the answer. The receiver requires a key, which the runtime
// has too.
func TestTraceOfAChat(t *testing.T) {
	t.Parallel()
	c := otlptest.Start(t, nil)
	up := modeltest.Start(t, modeltest.OpenAI, modeltest.Stream(modeltest.Text("planted answer"), modeltest.Stop("stop"),
		modeltest.Usage(model.Usage{InputTokens: 7, CacheReadInputTokens: 5, OutputTokens: 3})))
	p := openProduct(t, "OTEL_EXPORTER_OTLP_ENDPOINT", c.URL, "OTEL_EXPORTER_OTLP_HEADERS", c.Headers)
	provider := p.send(http.StatusCreated, http.MethodPost, "/api/v1/admin/providers", `{"name":"up","protocol":"openai","baseUrl":"`+up.URL+`","apiKey":"k"}`)
	p.send(http.StatusCreated, http.MethodPost, adminAgents, `{"name":"helper","providerId":"`+provider.string(t, "id")+`","model":"m"}`)
	p.deploy("helper")

	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.URL+p.session("helper")+"/messages", strings.NewReader(`{"message":"planted question"}`))
	require.NoError(t, err)
	req.Header = http.Header{
		"Authorization": {"Bearer " + p.token}, "Content-Type": {"application/json"}, "Traceparent": {otlptest.Traceparent},
	}
	res := do(t, req)
	require.Equal(t, http.StatusOK, res.status, res.text)
	require.Contains(t, res.text, "planted answer")

	require.Equal(t, c.AwaitChat(t, "helper", "m"), up.Requests()[0].Header.Get("Traceparent"))
	attributes := map[string]string{}
	for _, server := range []string{"hub", "runtime"} { // both have the same values
		for _, a := range c.Await(t, "agenthost-"+server+": invoke_agent helper", otlptest.Trace).Attributes {
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
	require.Equal(t, tracepb.Span_SPAN_KIND_CLIENT, c.Await(t, "agenthost-hub: transaction", otlptest.Trace).Kind)
	p.remove("helper")
	require.Eventually(t, func() bool {
		return len(c.Spans("agenthost-hub: deployment apply")) > 0 && len(c.Spans("agenthost-hub: deployment delete")) > 0
	}, daemontest.Patience, 50*time.Millisecond)
	for _, span := range c.Spans("") {
		require.NotContains(t, span.String(), "planted")
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
