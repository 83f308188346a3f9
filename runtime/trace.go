package runtime

import (
	"cmp"
	"net/http"
	"strconv"

	"github.com/julienschmidt/httprouter"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/seed93082962/agenthost/internal/httpapi"
)

// routed sets the route of a request for metrics, and adds a span to it, which continues the trace
// of its traceparent. The path, in which clients may have secrets, is not in the span.
func (rt *Runtime) routed(route route) httpapi.Handler {
	if rt.cfg.TracerProvider == nil || quiet(route.path) {
		return func(w http.ResponseWriter, r *http.Request, ps httprouter.Params) error {
			httpapi.SetRoute(w, route.path)
			return route.handler(w, r, ps)
		}
	}

	tracer, name := rt.cfg.TracerProvider.Tracer(scope), route.method+" "+route.path
	options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
		attribute.String("http.request.method", route.method), attribute.String("http.route", route.path))}
	return func(w http.ResponseWriter, r *http.Request, ps httprouter.Params) error {
		httpapi.SetRoute(w, route.path)
		ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
		ctx, span := tracer.Start(ctx, name, options...)
		defer endRequest(span, w)
		err := route.handler(w, r.WithContext(ctx), ps)
		if err != nil {
			rt.fail(w, r, err)
		}

		return nil
	}
}

// endRequest ends the span of a request. Without a response, the handler panicked, and the shell
// responds with 500 afterwards.
func endRequest(span trace.Span, w http.ResponseWriter) {
	status := cmp.Or(httpapi.StatusOf(w), http.StatusInternalServerError)
	span.SetAttributes(attribute.Int("http.response.status_code", status), attribute.String("agenthost.request_id", httpapi.RequestID(w)))
	if status >= http.StatusInternalServerError {
		span.SetAttributes(attribute.String("error.type", strconv.Itoa(status)))
		span.SetStatus(codes.Error, "")
	}

	span.End()
}
