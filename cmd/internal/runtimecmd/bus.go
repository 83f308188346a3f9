package runtimecmd

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"

	"github.com/seed93082962/agenthost/cmd/internal/daemon"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/run/natsbus"
)

// readBus reads the URL of the bus. Relative paths in it are relative to the current directory.
func (s *settings) readBus(file *agent.File) error {
	url := cmp.Or(s.BusURL, string(file.Bus))
	if url == "" {
		return nil
	}
	cfg, err := natsbus.Parse(url)
	if err != nil {
		return fmt.Errorf("read AGENT_BUS_URL or bus in the configuration file: %w", err)
	}
	s.bus = &cfg
	s.secretFiles = append(s.secretFiles, cfg.Secrets()...)
	return nil
}

// openBus connects to the bus.
func openBus(ctx context.Context, cfg natsbus.Config, log *slog.Logger) (*natsbus.Bus, error) {
	cfg.Logger = log
	bus, err := natsbus.Open(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("open the bus of AGENT_BUS_URL: %w", err)
	}
	log.Info("connected to the bus")
	return bus, nil
}

// childBus connects the runtime of a deployment to the bus of its environment, which a platform
// with several replicas of a deployment sets. It returns nil without one, and the files with
// secrets.
func childBus(getenv func(string) string, log *slog.Logger) (bus *natsbus.Bus, secrets []string, err error) {
	var s settings
	var own struct {
		URL string `env:"AGENT_BUS_URL" secret:"file"`
	}
	if s.secretFiles, err = daemon.ReadEnvironment(getenv, &own); err != nil {
		return nil, nil, err
	}
	s.BusURL = own.URL
	if err := s.readBus(&agent.File{}); err != nil || s.bus == nil {
		return nil, nil, err
	}
	bus, err = openBus(context.Background(), *s.bus, log)
	return bus, s.secretFiles, err
}
