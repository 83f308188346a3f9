package hubcmd_test

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/cmd/internal/hubcmd"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// The settings of a deployer bound the agents, unless there are others.
func TestMaxDeployment(t *testing.T) {
	t.Parallel()
	type env = map[string]string
	for name, test := range map[string]struct {
		env  env
		want agent.Deployment
		err  string
	}{
		"process":             {},
		"bounds of processes": {env: env{"DEPLOYER_MEMORY_MAX": "2Gi"}, want: agent.Deployment{Memory: "2Gi"}},
		"docker":              {env: env{"DEPLOYER": "docker", "DOCKER_CPUS": "0.5"}, want: agent.Deployment{Memory: "1Gi", CPU: "500m", Processes: 512}},
		"bounds of docker": {
			env:  env{"DEPLOYER": "docker", "DEPLOYER_MEMORY_MAX": "4Gi", "DEPLOYER_CPU_MAX": "2000m", "DEPLOYER_PROCESSES_MAX": "1024", "DEPLOYER_REPLICAS_MAX": "3"},
			want: agent.Deployment{Memory: "4Gi", CPU: "2000m", Processes: 1024, Replicas: 3},
		},
		"kubernetes": {
			env:  env{"DEPLOYER": "kubernetes", "KUBERNETES_MEMORY": "1.5Gi", "KUBERNETES_CPUS": "2", "KUBERNETES_REPLICAS": "2"},
			want: agent.Deployment{Memory: "1536Mi", CPU: "2000m", Replicas: 2},
		},
		"bytes":           {env: env{"DEPLOYER_MEMORY_MAX": "1000000000"}, err: "DEPLOYER_MEMORY_MAX: it must be a whole number from 32Mi"},
		"processors":      {env: env{"DEPLOYER_CPU_MAX": "2"}, err: "DEPLOYER_CPU_MAX: it must be from 10m"},
		"few processes":   {env: env{"DEPLOYER_PROCESSES_MAX": "8"}, err: "DEPLOYER_PROCESSES_MAX: it must be from 16"},
		"no number":       {env: env{"DEPLOYER_REPLICAS_MAX": "many"}, err: `DEPLOYER_REPLICAS_MAX: "many" is not a number`},
		"too many":        {env: env{"DEPLOYER_REPLICAS_MAX": "101"}, err: "DEPLOYER_REPLICAS_MAX: it must be from 1 to 100"},
		"no replicas":     {env: env{"DEPLOYER_REPLICAS_MAX": "0"}, err: `DEPLOYER_REPLICAS_MAX: "0" is not a number`},
		"memory of a pod": {env: env{"DEPLOYER": "kubernetes", "KUBERNETES_MEMORY": "much"}, err: "KUBERNETES_MEMORY"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			most, err := hubcmd.MaxDeployment(func(name string) string { return test.env[name] })
			if test.err != "" {
				require.ErrorContains(t, err, test.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, test.want, most)
		})
	}
}

// A hub warns of a bound that the process deployer does not enforce.
func TestBoundsThatAreNotEnforced(t *testing.T) {
	t.Parallel()
	env := map[string]string{"HUB_DATA_DIR": t.TempDir()}
	start := func() string {
		var log bytes.Buffer
		_, err := hubcmd.Deployer(func(name string) string { return env[name] }, slog.New(slog.NewTextHandler(&log, nil)))
		require.NoError(t, err)
		return log.String()
	}
	const warning = "agents without deployment settings have no limit in spite of DEPLOYER_*_MAX"
	require.NotContains(t, start(), warning)
	env["DEPLOYER_CPU_MAX"] = "2000m"
	require.Contains(t, start(), warning)
}
