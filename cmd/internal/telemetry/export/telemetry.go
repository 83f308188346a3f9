// Package export builds the metrics and the traces of a server command: a meter provider that
// Prometheus scrapes, and a tracer provider that exports spans with OTLP over HTTP. The libraries
// of a server receive the providers in their Config.
package export

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/exemplar"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/seed93082962/agenthost/cmd/internal/telemetry"
)

// Telemetry has the providers of a server. The caller shuts it down.
type Telemetry struct {
	log      *slog.Logger
	registry *prometheus.Registry // nil without metrics
	meters   *sdkmetric.MeterProvider
	tracers  *sdktrace.TracerProvider
}

// New builds the providers. It connects to nothing: an endpoint that is unavailable is an error of
// the first export.
func New(ctx context.Context, cfg telemetry.Config) (*Telemetry, error) {
	t := &Telemetry{log: cfg.Logger}
	res, err := describe(ctx, &cfg)
	if err == nil && cfg.Addr != "" {
		err = t.measure(res)
	}

	if err == nil && cfg.Settings.Traces() {
		t.tracers, err = newTracers(ctx, cfg.Settings, res, cfg.Logger)
	}

	if err != nil {
		return nil, fmt.Errorf("set up telemetry: %w", err)
	}

	return t, nil
}

// describe returns the description of the server in metrics and traces.
func describe(ctx context.Context, cfg *telemetry.Config) (*resource.Resource, error) {
	given, err := telemetry.Pairs(cfg.Settings.OTLPResource)
	if err != nil {
		return nil, err
	}

	attributes := []attribute.KeyValue{attribute.String("service.name", cfg.Service), attribute.String("service.version", cfg.Version)}
	for key, value := range given {
		attributes = append(attributes, attribute.String(key, value))
	}

	if name := cfg.Settings.OTLPService; name != "" {
		attributes = append(attributes, attribute.String("service.name", name))
	}

	// Of two attributes with one key, the last one is used.
	return resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(attributes...))
}

// maxSeries bounds the series of one metric. Measurements beyond it are added to one series with
// the label otel_metric_overflow.
const maxSeries = 5000

// measure builds the meter provider with a registry of its own.
func (t *Telemetry) measure(res *resource.Resource) error {
	t.registry = prometheus.NewRegistry()
	t.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	reader, err := exporter.New(exporter.WithRegisterer(t.registry), exporter.WithoutScopeInfo())
	if err != nil {
		return err
	}

	t.meters = sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader), sdkmetric.WithResource(res),
		sdkmetric.WithCardinalityLimit(maxSeries), sdkmetric.WithExemplarFilter(exemplar.AlwaysOffFilter))
	return nil
}

// MeterProvider returns the provider of the metrics, or nil if they are off.
func (t *Telemetry) MeterProvider() metric.MeterProvider {
	if t.meters == nil {
		return nil // and not a nil pointer in an interface
	}

	return t.meters
}

// TracerProvider returns the provider of the traces, or nil if they are off.
func (t *Telemetry) TracerProvider() trace.TracerProvider {
	if t.tracers == nil {
		return nil
	}

	return t.tracers
}

// maxScrapes bounds the number of concurrent scrapes.
const maxScrapes = 4

// Handler serves GET /metrics. It requires no key: it belongs on a private address.
func (t *Telemetry) Handler() http.Handler {
	mux := http.NewServeMux()
	if t.registry != nil {
		mux.Handle("GET /metrics", promhttp.HandlerFor(t.registry, promhttp.HandlerOpts{
			MaxRequestsInFlight: maxScrapes, Timeout: 20 * time.Second,
			ErrorLog: slog.NewLogLogger(t.log.Handler(), slog.LevelWarn),
		}))
	}

	return mux
}

// shutdownTimeout bounds the last export.
const shutdownTimeout = 5 * time.Second

// Shutdown exports the spans that are left, in at most 5 s, and stops both providers. It logs what
// fails.
func (t *Telemetry) Shutdown(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, shutdownTimeout)
	defer cancel()
	if t.tracers != nil {
		if err := t.tracers.Shutdown(ctx); err != nil {
			t.log.Warn("export the last traces", "err", err)
		}
	}

	if t.meters != nil {
		_ = t.meters.Shutdown(ctx) // a reader that is scraped has nothing to export
	}
}

// handleErrors logs the errors of the SDK, which has no other place for them than its global.
func handleErrors(log *failureLog) { otel.SetErrorHandler(otel.ErrorHandlerFunc(log.report)) }
