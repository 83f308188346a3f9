package deployment

import (
	"fmt"
	"strconv"

	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/quantity"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// checkDeployment returns an error for settings of an agent that exceed Config.Most, or that the
// platform cannot enforce. Agents may have them from another platform, or from before the operator
// changed the settings of the hub.
func (s *Service) checkDeployment(wanted agent.Deployment) error {
	most := s.cfg.Most
	for _, row := range []struct {
		name         string
		wanted, most int64
		text         func(int64) string
	}{
		{"memory", wanted.Bytes(), most.Bytes(), quantity.Memory},
		{"cpu", wanted.MilliCPU(), most.MilliCPU(), quantity.CPU},
		{"processes", wanted.Processes, most.Processes, number},
		{"replicas", wanted.Replicas, most.Replicas, number},
	} {
		if row.most > 0 && row.wanted > row.most {
			return fmt.Errorf("deployment.%s is %s, and this hub permits at most %s (deployer.max.%s)",
				row.name, row.text(row.wanted), row.text(row.most), row.name)
		}
	}

	return s.driver.CheckDeployment(wanted)
}

// permit returns the error of checkDeployment as wire.Conflict.
func (s *Service) permit(wanted agent.Deployment) error {
	if err := s.checkDeployment(wanted); err != nil {
		return wire.Conflict.New("The agent cannot be deployed: " + err.Error() + ".")
	}

	return nil
}

func number(n int64) string { return strconv.FormatInt(n, 10) }
