// Package replica has the rule of deployers that start one runtime for a revision.
package replica

import (
	"fmt"

	"github.com/seed93082962/agenthost/runtime/agent"
)

// One returns an error if the settings have several replicas.
func One(backend string, d agent.Deployment) error {
	if d.Replicas > 1 {
		return fmt.Errorf("deployment.replicas is %d, and the %s deployer starts one runtime: omit it, or use kubernetes", d.Replicas, backend)
	}

	return nil
}
