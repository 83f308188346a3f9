package runtimecmd

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"

	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/run/natsbus"
)

// readBus reads the URL of the bus. Relative paths in it are relative to the current directory.
func (s *settings) readBus(file *agent.File) {
	url := cmp.Or(s.BusURL, string(file.Bus))
	if url == "" {
		return
	}

	cfg, err := natsbus.Parse(url)
	if err != nil {
		s.Fault(&s.BusURL, "%v", err)
		return
	}

	s.bus = &cfg
	s.Secrets = append(s.Secrets, cfg.Secrets()...)
}

// openBus connects to the bus. It returns nil without one.
func (s *settings) openBus(ctx context.Context, log *slog.Logger) (*natsbus.Bus, error) {
	if s.bus == nil {
		return nil, nil //nolint:nilnil // a runtime with one replica needs none
	}

	s.bus.Logger = log
	bus, err := natsbus.Open(ctx, *s.bus)
	if err != nil {
		return nil, fmt.Errorf("open the bus of AGENT_BUS_URL: %w", err)
	}

	log.Info("connected to the bus")
	return bus, nil
}
