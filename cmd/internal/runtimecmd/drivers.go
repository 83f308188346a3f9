package runtimecmd

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"

	"github.com/seed93082962/agenthost/cmd/internal/daemon"
	"github.com/seed93082962/agenthost/cmd/internal/telemetry"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/run"
)

// Drivers are what not every program links. A nil one is a fault of the settings that need it.
type Drivers struct {
	// ParseBus parses AGENT_BUS_URL.
	ParseBus func(url string) (BusConfig, error)
	// Telemetry exports metrics and traces.
	Telemetry telemetry.Start
}

// BusConfig is the address of a bus.
type BusConfig interface {
	// Secrets returns the paths of the files of its credentials.
	Secrets() []string
	// Open connects to the bus.
	Open(ctx context.Context, log *slog.Logger) (Bus, error)
}

// Bus connects the replicas of a runtime.
type Bus interface {
	run.Bus
	Close()
}

// Start starts the telemetry of a server, which is off in a program that exports nothing.
func (d Drivers) Start(ctx context.Context, cfg telemetry.Config) (telemetry.Telemetry, error) {
	if d.Telemetry == nil {
		return telemetry.Off{}, nil
	}

	return d.Telemetry(ctx, cfg)
}

// Check adds the faults of settings of telemetry. addr is the setting of the address of the
// metrics.
func (d Drivers) Check(s *telemetry.Settings, addr *string, origins *daemon.Origins) {
	s.Check(origins)
	if d.Telemetry != nil {
		return
	}

	if s.Traces() {
		origins.Fault(cmp.Or(field(&s.OTLPTracesEndpoint), &s.OTLPEndpoint), daemon.Elsewhere+", or set OTEL_SDK_DISABLED=true")
	}

	if *addr != "" {
		origins.Fault(addr, daemon.Elsewhere)
	}
}

// field returns a setting that is set, or nil.
func field(text *string) *string {
	if *text == "" {
		return nil
	}

	return text
}

// readBus reads the URL of the bus. Relative paths in it are relative to the current directory.
func (s *settings) readBus(file *agent.File) {
	url := cmp.Or(s.BusURL, string(file.Bus))
	if url == "" {
		return
	}

	if s.drivers.ParseBus == nil {
		s.Fault(&s.BusURL, daemon.Elsewhere)
		return
	}

	cfg, err := s.drivers.ParseBus(url)
	if err != nil {
		s.Fault(&s.BusURL, "%v", err)
		return
	}

	s.bus = cfg
	s.Secrets = append(s.Secrets, cfg.Secrets()...)
}

// openBus connects to the bus. It returns nil without one.
func (s *settings) openBus(ctx context.Context, log *slog.Logger) (Bus, error) {
	if s.bus == nil {
		return nil, nil //nolint:nilnil // a runtime with one replica needs none
	}

	bus, err := s.bus.Open(ctx, log)
	if err != nil {
		return nil, fmt.Errorf("open the bus of AGENT_BUS_URL: %w", err)
	}

	log.Info("connected to the bus")
	return bus, nil
}
