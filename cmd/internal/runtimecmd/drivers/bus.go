// Package drivers has what the programs hub and runtime link in addition to agenthost: the bus of
// NATS, and the exporters of metrics and traces.
package drivers

import (
	"context"
	"log/slog"

	"github.com/seed93082962/agenthost/cmd/internal/runtimecmd"
	"github.com/seed93082962/agenthost/cmd/internal/telemetry/export"
	"github.com/seed93082962/agenthost/runtime/run/natsbus"
)

// All returns all drivers of a runtime.
func All() runtimecmd.Drivers {
	return runtimecmd.Drivers{ParseBus: parseBus, Telemetry: export.Start}
}

func parseBus(url string) (runtimecmd.BusConfig, error) {
	cfg, err := natsbus.Parse(url)
	if err != nil {
		return nil, err
	}

	return &busConfig{cfg}, nil
}

// busConfig is the address of a bus.
type busConfig struct{ natsbus.Config }

// Open implements runtimecmd.BusConfig.
func (c *busConfig) Open(ctx context.Context, log *slog.Logger) (runtimecmd.Bus, error) {
	c.Logger = log
	bus, err := natsbus.Open(ctx, c.Config)
	if err != nil {
		return nil, err // and not a nil pointer in an interface
	}

	return bus, nil
}
