package agent_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/quantity"
	"github.com/seed93082962/agenthost/runtime/agent"
)

func TestQuantitiesOfADeployment(t *testing.T) {
	t.Parallel()
	d := agent.Deployment{Memory: "1536Mi", CPU: "500m"}
	require.EqualValues(t, 1536<<20, d.Bytes())
	require.EqualValues(t, 500, d.MilliCPU())
	require.Equal(t, "1536Mi", quantity.Memory(d.Bytes()))
	require.Equal(t, "500m", quantity.CPU(d.MilliCPU()))
	require.EqualValues(t, 2<<30, agent.Deployment{Memory: "2Gi"}.Bytes())
	require.Equal(t, "2Gi", quantity.Memory(2<<30))
	require.Equal(t, "95Mi", quantity.Memory(100_000_000))
	require.Zero(t, agent.Deployment{}.Bytes()+agent.Deployment{}.MilliCPU())
	require.NoError(t, agent.Deployment{}.Validate())
	require.ErrorContains(t, agent.Deployment{Memory: "2GB"}.Validate(), "memory: must be a whole number from 32Mi to 16384Gi")
	require.ErrorContains(t, agent.Deployment{CPU: "2"}.Validate(), "cpu: must be from 10m to 1024000m, in thousandths of a processor")
}
