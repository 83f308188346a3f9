package hubcmd

import (
	"log/slog"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// Settings are the settings that the program reads.
type Settings = settings

// ContainerID exports containerID.
var ContainerID = containerID

// Read returns the settings of an environment.
func Read(getenv func(string) string) *Settings {
	s := &settings{getenv: getenv}
	s.read(nil)
	return s
}

// MaxDeployment exports settings.maxDeployment.
func (s *settings) MaxDeployment() agent.Deployment { return s.maxDeployment() }

// OpenDeployer exports settings.deployer.
func (s *settings) OpenDeployer(log *slog.Logger) (deploy.Driver, error) { return s.deployer(log) }

// The types of values.
type (
	UserIDs = userIDs
	Prices  = prices
)
