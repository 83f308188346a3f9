package api

import (
	"net/http"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/seed93082962/agenthost/internal/httpapi"
)

// startSpan starts the span of a request that matches a route. It continues the trace of the
// request's traceparent. The path itself, which may have secrets, is not in the span. Without
// traces it returns the request and a nil span.
func (s *server) startSpan(r *http.Request, route *Route) (*http.Request, trace.Span) {
	if s.tracer == nil || route.Quiet {
		return r, nil
	}

	ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
	method := r.Method
	if !s.metrics.methods[method] {
		method = "_OTHER" // of the semantic conventions of HTTP
	}

	ctx, span := s.tracer.Start(ctx, method+" "+route.Path, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
		attribute.String("http.request.method", method), attribute.String("http.route", route.Path)))
	return r.WithContext(ctx), span
}

// endSpan ends a span of startSpan with the status of the response. A handler that panicked has
// perhaps no status: the shell responds with 500 afterwards.
func endSpan(span trace.Span, w http.ResponseWriter) {
	if span == nil {
		return
	}

	status := httpapi.StatusOf(w)
	if status == 0 {
		status = http.StatusInternalServerError
	}

	span.SetAttributes(attribute.Int("http.response.status_code", status), attribute.String("agenthost.request_id", httpapi.RequestID(w)))
	if status >= http.StatusInternalServerError {
		span.SetAttributes(attribute.String("error.type", strconv.Itoa(status)))
		span.SetStatus(codes.Error, "")
	}

	span.End()
}
