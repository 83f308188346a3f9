package hubcmd

import (
	"log/slog"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// Settings are the variables that the program reads.
type Settings = settings

// ContainerID exports containerID.
var ContainerID = containerID

// MaxDeployment exports settings.maxDeployment for an environment.
func MaxDeployment(getenv func(string) string) (agent.Deployment, error) {
	s, err := readEnvironment(getenv)
	if err != nil {
		return agent.Deployment{}, err
	}
	return s.maxDeployment()
}

// Deployer exports settings.deployer for an environment.
func Deployer(getenv func(string) string, log *slog.Logger) (deploy.Driver, error) {
	s, err := readEnvironment(getenv)
	if err != nil {
		return nil, err
	}
	return s.deployer(log)
}
