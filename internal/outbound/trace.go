package outbound

import (
	"io"
	"net/http"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// Traced returns a transport that sends requests of a trace with its traceparent. If the span in
// the context of a request is recorded, the request has a span of its own, which ends with the body
// of the response. Other requests are sent as they are.
func Traced(next http.RoundTripper) http.RoundTripper { return traced{next} }

type traced struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t traced) RoundTrip(r *http.Request) (*http.Response, error) {
	parent := trace.SpanFromContext(r.Context())
	if !parent.SpanContext().IsValid() {
		return t.RoundTripper.RoundTrip(r)
	}

	ctx, span := r.Context(), trace.Span(noop.Span{})
	if parent.IsRecording() {
		ctx, span = parent.TracerProvider().Tracer("github.com/seed93082962/agenthost/internal/outbound").Start(ctx, r.Method,
			trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
				attribute.String("http.request.method", r.Method), attribute.String("server.address", r.URL.Hostname()),
			))
	}

	r = r.Clone(ctx)
	r.Header.Del("Traceparent") // of a request that is forwarded
	r.Header.Del("Tracestate")
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(r.Header))
	res, err := t.RoundTripper.RoundTrip(r)
	if err != nil {
		span.SetAttributes(attribute.String("error.type", "no_response")) // the error may have a URL
		span.SetStatus(codes.Error, "no response")
		span.End()
		return nil, err
	}

	span.SetAttributes(attribute.Int("http.response.status_code", res.StatusCode))
	if res.StatusCode >= http.StatusBadRequest {
		span.SetAttributes(attribute.String("error.type", strconv.Itoa(res.StatusCode)))
		span.SetStatus(codes.Error, "")
	}

	res.Body = &tracedBody{res.Body, span}
	return res, nil
}

// CloseIdleConnections is called by http.Client.
func (t traced) CloseIdleConnections() {
	if c, ok := t.RoundTripper.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// tracedBody ends the span of a request at the end of the response.
type tracedBody struct {
	io.ReadCloser
	span trace.Span
}

// Read implements io.Reader.
func (b *tracedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.span.End() // without effect after the first call
	}

	return n, err
}

// Close implements io.Closer.
func (b *tracedBody) Close() error {
	b.span.End()
	return b.ReadCloser.Close()
}
