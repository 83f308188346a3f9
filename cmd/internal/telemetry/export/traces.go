package export

import (
	"cmp"
	"context"
	"log/slog"
	"strings"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"golang.org/x/time/rate"

	"github.com/seed93082962/agenthost/cmd/internal/telemetry"
)

// Bounds of the spans that wait for their export. Spans beyond the queue are dropped.
const (
	maxQueued    = 2048
	maxBatch     = 256
	maxAttribute = 16 << 10 // bytes of a value, of which a span has few
)

// newTracers returns a provider that exports to the endpoint of the settings.
func newTracers(ctx context.Context, s telemetry.Settings, res *resource.Resource, log *slog.Logger) (*sdktrace.TracerProvider, error) {
	endpoint, err := s.Endpoint()
	if err != nil {
		return nil, err
	}

	headers, err := telemetry.Pairs(s.OTLPHeaders)
	if err != nil {
		return nil, err
	}

	timeout := time.Duration(cmp.Or(s.OTLPTimeout, 10_000)) * time.Millisecond
	client, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(endpoint), otlptracehttp.WithHeaders(headers),
		otlptracehttp.WithTimeout(timeout), otlptracehttp.WithRetry(otlptracehttp.RetryConfig{
			Enabled: true, InitialInterval: time.Second, MaxInterval: 10 * time.Second, MaxElapsedTime: 30 * time.Second,
		}))
	if err != nil {
		return nil, err
	}

	failures := &failureLog{log: log, every: rate.Sometimes{Interval: time.Minute}}
	handleErrors(failures)
	limits := sdktrace.NewSpanLimits()
	limits.AttributeValueLengthLimit = maxAttribute
	return sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(quiet{client, failures}, sdktrace.WithMaxQueueSize(maxQueued), sdktrace.WithMaxExportBatchSize(maxBatch)),
		sdktrace.WithResource(res), sdktrace.WithSampler(sampler(s)), sdktrace.WithRawSpanLimits(limits),
	), nil
}

// sampler returns the sampler of valid settings.
func sampler(s telemetry.Settings) sdktrace.Sampler {
	kind, based := strings.CutPrefix(s.OTLPSampler, "parentbased_")
	ratio, _ := s.Ratio()
	sampler := map[string]sdktrace.Sampler{
		"always_on": sdktrace.AlwaysSample(), "always_off": sdktrace.NeverSample(), "traceidratio": sdktrace.TraceIDRatioBased(ratio),
	}[kind]
	if based {
		return sdktrace.ParentBased(sampler)
	}

	return sampler
}

// quiet is an exporter whose failures are logged and otherwise ignored.
type quiet struct {
	sdktrace.SpanExporter
	failures *failureLog
}

// ExportSpans implements sdktrace.SpanExporter.
func (q quiet) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	if err := q.SpanExporter.ExportSpans(ctx, spans); err != nil {
		q.failures.report(err)
	}

	return nil
}

// failureLog logs the first error of each minute. An endpoint that is away fails every few seconds.
type failureLog struct {
	log   *slog.Logger
	every rate.Sometimes
}

func (f *failureLog) report(err error) {
	f.every.Do(func() { f.log.Warn("export traces", "err", err) })
}
