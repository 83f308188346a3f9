package hubcmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"

	"github.com/seed93082962/agenthost/cmd/internal/daemon"
	"github.com/seed93082962/agenthost/cmd/internal/telemetry"
)

// checkMetrics checks the settings of metrics and traces.
func (s *settings) checkMetrics() error {
	errs := []error{s.Settings.Check()}
	if s.MetricsAddr != "" {
		if _, _, err := net.SplitHostPort(s.MetricsAddr); err != nil {
			errs = append(errs, fmt.Errorf("--metrics-addr %q is not an address: use host:port, such as 127.0.0.1:9464", s.MetricsAddr))
		}
	}
	if s.MetricsHosts != "" && s.MetricsAddr == "" {
		errs = append(errs, errors.New("HUB_METRICS_HOSTS has no effect without HUB_METRICS_ADDR"))
	}
	return errors.Join(errs...)
}

// openTelemetry builds the providers, and serves the metrics until ctx ends. The caller shuts them
// down.
func (s *settings) openTelemetry(ctx context.Context, log *slog.Logger) (*telemetry.Telemetry, error) {
	t, err := telemetry.New(ctx, telemetry.Config{
		Service: "agenthost-hub", Version: daemon.Version(), Settings: s.Settings, Metrics: s.MetricsAddr != "", Logger: log,
	})
	if err != nil || s.MetricsAddr == "" {
		return t, err
	}
	addr, err := t.Serve(ctx, s.MetricsAddr, list(s.MetricsHosts))
	if err != nil {
		t.Shutdown(ctx)
		return nil, err
	}
	log.Info("serving metrics", "addr", addr.String())
	return t, nil
}
