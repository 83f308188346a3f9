package telemetry

import (
	"context"
	"log/slog"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// Config describes the telemetry of a server.
type Config struct {
	// Service is the service.name of the server unless OTEL_SERVICE_NAME is set.
	Service string
	// Version is the service.version.
	Version string
	// Settings are those of the environment. Without an endpoint, traces are off.
	Settings Settings
	// Addr is the private address of the metrics. An empty one turns them off.
	Addr string
	// Hosts are the names under which Addr is called, in addition to addresses and localhost.
	Hosts []string
	// Logger receives failed exports. Required.
	Logger *slog.Logger
}

// Telemetry has the providers of a server. A provider that is off is nil.
type Telemetry interface {
	MeterProvider() metric.MeterProvider
	TracerProvider() trace.TracerProvider
	// Shutdown exports the spans that are left, in at most 5 s, and stops both providers. It logs
	// what fails.
	Shutdown(ctx context.Context)
}

// Start builds the providers, and serves the metrics until ctx ends. It connects to nothing: an
// endpoint that is unavailable is an error of the first export. The caller shuts them down.
type Start func(ctx context.Context, cfg Config) (Telemetry, error)

// Off is the telemetry of a program that exports nothing.
type Off struct{}

// MeterProvider implements Telemetry.
func (Off) MeterProvider() metric.MeterProvider { return nil }

// TracerProvider implements Telemetry.
func (Off) TracerProvider() trace.TracerProvider { return nil }

// Shutdown implements Telemetry.
func (Off) Shutdown(context.Context) {}
