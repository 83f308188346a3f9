package deploy

import (
	"fmt"

	"github.com/seed93082962/agenthost/runtime/agent"
)

// Bounds are the most that the deployment settings of agents may have. A zero field is unbounded.
type Bounds = agent.Deployment

// OneReplica returns the error of a driver that starts one process or container for a revision.
func OneReplica(backend string, d agent.Deployment) error {
	if d.Replicas > 1 {
		return fmt.Errorf("deployment.replicas is %d, and the %s deployer starts one runtime: omit it, or use kubernetes", d.Replicas, backend)
	}

	return nil
}
