package hubcmd

import (
	"log/slog"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// Read returns the settings of an environment.
func Read(getenv func(string) string) *Settings {
	s := &Settings{Getenv: getenv}
	s.read(nil)
	return s
}

// MaxDeployment exports settings.maxDeployment.
func (s *Settings) MaxDeployment() agent.Deployment { return s.maxDeployment() }

// OpenDeployer exports settings.deployer.
func (s *Settings) OpenDeployer(log *slog.Logger) (deploy.Driver, error) { return s.deployer(log) }

// The types of values.
type (
	UserIDs = userIDs
	Prices  = prices
)
