package hubcmd_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
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
		file string
		want agent.Deployment
		err  string
	}{
		"process":             {},
		"none":                {env: env{"DEPLOYER": "none"}},
		"one of processes":    {env: env{"DEPLOYER_MEMORY": "1Gi"}, want: agent.Deployment{Memory: "1Gi"}},
		"bounds of processes": {file: "max: {memory: 2Gi}", want: agent.Deployment{Memory: "2Gi"}},
		"docker":              {env: env{"DEPLOYER": "docker", "DEPLOYER_CPU": "500m"}, want: agent.Deployment{Memory: "1Gi", CPU: "500m", Processes: 512}},
		"bounds of docker": {
			env:  env{"DEPLOYER": "docker"},
			file: "max: {memory: 4Gi, cpu: 2000m, processes: 1024, replicas: 3}",
			want: agent.Deployment{Memory: "4Gi", CPU: "2000m", Processes: 1024, Replicas: 3},
		},
		"kubernetes": {
			env:  env{"DEPLOYER": "kubernetes", "DEPLOYER_CPU": "2000m", "DEPLOYER_REPLICAS": "2"},
			file: "memory: 1536Mi",
			want: agent.Deployment{Memory: "1536Mi", CPU: "2000m", Replicas: 2},
		},
		"bytes":           {file: "max: {memory: 1000000000}", err: "hub.yaml:1: deployer.max.memory: must be a whole number from 32Mi"},
		"processors":      {file: "max: {cpu: 2}", err: "hub.yaml:1: deployer.max.cpu: must be from 10m"},
		"few processes":   {file: "max: {processes: 8}", err: "hub.yaml:1: deployer.max.processes: 8 is not from 16 to 4194304"},
		"no number":       {file: "max: {replicas: many}", err: `hub.yaml:1: deployer.max.replicas: "many" is not a whole number`},
		"too many":        {file: "max: {replicas: 101}", err: "hub.yaml:1: deployer.max.replicas: 101 is not from 1 to 100"},
		"no replicas":     {env: env{"DEPLOYER_REPLICAS": "0"}, err: "DEPLOYER_REPLICAS: 0 is not from 1 to 100"},
		"memory of a pod": {env: env{"DEPLOYER_MEMORY": "1.5Gi"}, err: "DEPLOYER_MEMORY: must be a whole number"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := hubcmd.Read(func(name string) string {
				if name == "HUB_CONFIG" && test.file != "" {
					return write(t, "deployer: {"+test.file+"}")
				}
				return test.env[name]
			})
			if test.err != "" {
				require.ErrorContains(t, s.Err(), test.err)
				return
			}
			require.NoError(t, s.Err())
			require.Equal(t, test.want, s.MaxDeployment())
		})
	}
}

// write returns the path of a file of settings.
func write(t *testing.T, settings string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "hub.yaml")
	require.NoError(t, os.WriteFile(path, []byte(settings), 0o600))
	return path
}

// A file without an end is not read into memory.
func TestAFileOfSettingsIsBounded(t *testing.T) {
	t.Parallel()
	s := hubcmd.Read(func(name string) string {
		if name == "HUB_CONFIG" {
			return "/dev/zero"
		}
		return ""
	})
	require.ErrorContains(t, s.Err(), "/dev/zero has more than 16777216 bytes")
}

// A hub warns of a bound that the process deployer does not enforce.
func TestBoundsThatAreNotEnforced(t *testing.T) {
	t.Parallel()
	env := map[string]string{"HUB_DATA_DIR": t.TempDir()}
	start := func() string {
		var log bytes.Buffer
		_, err := hubcmd.Read(func(name string) string { return env[name] }).OpenDeployer(slog.New(slog.NewTextHandler(&log, nil)))
		require.NoError(t, err)
		return log.String()
	}
	const warning = "agents without deployment settings have no limit in spite of DEPLOYER_MEMORY"
	require.NotContains(t, start(), warning)
	env["DEPLOYER_CPU"] = "2000m"
	require.Contains(t, start(), warning)
}
