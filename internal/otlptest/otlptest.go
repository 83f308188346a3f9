// Package otlptest has a receiver of traces for tests.
package otlptest

import (
	"compress/gzip"
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Receiver receives spans with OTLP over HTTP. It rejects exports without its key.
type Receiver struct {
	URL     string // the endpoint of all signals
	Headers string // the value of OTEL_EXPORTER_OTLP_HEADERS

	mu    sync.Mutex // guards spans
	spans map[string][]*tracepb.Span
}

const key = "planted-key-of-the-receiver"

// Start serves a receiver until the test ends, on a listener or with nil on a loopback address.
func Start(t *testing.T, l net.Listener) *Receiver {
	t.Helper()
	r := &Receiver{Headers: "x-receiver-key=" + key, spans: map[string][]*tracepb.Span{}}
	server := httptest.NewUnstartedServer(r)
	if l != nil {
		require.NoError(t, server.Listener.Close())
		server.Listener = l
	}

	server.Start()
	t.Cleanup(server.Close)
	r.URL = server.URL
	return r
}

// ServeHTTP implements http.Handler.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if req.Header.Get("X-Receiver-Key") != key {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}

	body := io.Reader(req.Body)
	if req.Header.Get("Content-Encoding") == "gzip" {
		body, _ = gzip.NewReader(req.Body) // a nil reader fails
	}

	data, err := io.ReadAll(body)
	var request coltrace.ExportTraceServiceRequest
	if err != nil || req.URL.Path != "/v1/traces" || proto.Unmarshal(data, &request) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	for _, resource := range request.ResourceSpans {
		service := ""
		for _, a := range resource.Resource.Attributes {
			if a.Key == "service.name" {
				service = a.Value.GetStringValue()
			}
		}

		for _, scope := range resource.ScopeSpans {
			for _, span := range scope.Spans {
				r.spans[service+": "+span.Name] = append(r.spans[service+": "+span.Name], span)
			}
		}
	}
}

// patience bounds the wait for a span. The programs export every few seconds.
const patience = time.Minute

// Await waits for a span of a trace. Its name is "SERVICE: NAME".
func (r *Receiver) Await(t *testing.T, name, trace string) (found *tracepb.Span) {
	t.Helper()
	require.Eventually(t, func() bool {
		for _, span := range r.Spans(name) {
			if hex.EncodeToString(span.TraceId) == trace {
				found = span
			}
		}

		return found != nil
	}, patience, 50*time.Millisecond, name)
	return found
}

// Spans returns the spans so far with a name, or all with "".
func (r *Receiver) Spans(name string) (all []*tracepb.Span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for n, spans := range r.spans {
		if name == "" || n == name {
			all = append(all, spans...)
		}
	}

	return all
}

// The trace of a request with the header Traceparent.
const (
	Trace       = "4bf92f3577b34da6a3ce929d0e0e4736"
	parent      = "00f067aa0ba902b7"
	Traceparent = "00-" + Trace + "-" + parent + "-01"
)

// AwaitChat waits for the spans of a chat with an agent and a model, each of which is the parent of
// the next one: from the request of the client, which has the header Traceparent, to the call of
// the model. It returns the Traceparent of that call.
func (r *Receiver) AwaitChat(t *testing.T, agent, model string) string {
	t.Helper()
	before := parent
	for _, name := range []string{
		"agenthost-hub: POST /api/v1/agents/:name/chat/sessions/:id/messages", "agenthost-hub: invoke_agent " + agent, "agenthost-hub: POST",
		"agenthost-runtime: POST /v1/agents/:agentId/runs", "agenthost-runtime: invoke_agent " + agent, "agenthost-runtime: chat " + model,
	} {
		span := r.Await(t, name, Trace)
		require.Equal(t, before, hex.EncodeToString(span.ParentSpanId), name)
		before = hex.EncodeToString(span.SpanId)
	}

	return "00-" + Trace + "-" + before + "-01"
}
