package process_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/deploy/process"
	"github.com/seed93082962/agenthost/internal/sandbox"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// groupFile returns the content of a file in a control group of a process, of version 1 or 2.
func groupFile(t *testing.T, pid int, controller, name, unified string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cgroup"))
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		file := ""
		switch {
		case !strings.Contains(parts[2], "agenthost-sandbox-"):
			continue
		case parts[1] == controller:
			file = filepath.Join("/sys/fs/cgroup", controller, parts[2], name)
		case parts[1] == "":
			file = filepath.Join("/sys/fs/cgroup", parts[2], unified)
		}
		if content, err := os.ReadFile(file); err == nil {
			return strings.TrimSpace(string(content))
		}
	}
	return ""
}

// A deployment has the limits of its agent where the system enforces them. Elsewhere it is not
// started, with the reason.
func TestLimitsOfAnAgent(t *testing.T) {
	t.Parallel()
	box, err := sandbox.New(sandbox.Policy{
		Dir: t.TempDir(), Private: t.TempDir(), Network: sandbox.NetworkAll, Nested: true, Limits: sandbox.Limits{Memory: 1 << 30, Processes: 100},
	})
	require.NoError(t, err)
	box.Close()
	dir := t.TempDir()
	d := open(t, dir)
	req := demand
	req.Deployment = agent.Deployment{Memory: "192Mi", Processes: 300}
	if !box.Support().Memory {
		require.ErrorContains(t, d.Apply(t.Context(), ref, 1, req), "deployment.memory: this system limits no memory")
		return
	}
	require.NoError(t, d.Apply(t.Context(), ref, 1, req))
	until(t, d, deploy.Running, nil)
	process := pid(t, dir, key)
	require.Eventually(t, func() bool { // the launcher joins its groups after its start
		return groupFile(t, process, "memory", "memory.limit_in_bytes", "memory.max") == strconv.Itoa(192<<20)
	}, 30*time.Second, 20*time.Millisecond)
	require.Equal(t, "324", groupFile(t, process, "pids", "pids.max", "pids.max"), "with the threads of the launcher")
	remove(t, d)

	require.NoError(t, d.Apply(t.Context(), ref, 2, demand))
	until(t, d, deploy.Running, nil)
	require.Empty(t, groupFile(t, pidOf(t, dir, key, 2), "memory", "memory.limit_in_bytes", "memory.max"))
	remove(t, d)
	require.ErrorContains(t, d.CheckDeployment(agent.Deployment{CPU: "500m"}), "deployment.cpu")
}

// An agent without settings has the default limits where the system enforces them. Those that it
// does not enforce are reported.
func TestDefaultLimits(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := open(t, dir, func(c *process.Config) {
		c.Default = agent.Deployment{Memory: "256Mi", CPU: "500m", Processes: 300, Replicas: 2}
	})
	require.Contains(t, d.Unlimited(), "cpu: the process deployer limits no processors")
	require.Equal(t, d.CheckDeployment(agent.Deployment{Memory: "256Mi"}) != nil, strings.Contains(d.Unlimited(), "memory: this system limits no memory"))
	req := demand
	if d.CheckDeployment(agent.Deployment{Processes: 200}) == nil {
		req.Deployment.Processes = 200
	}
	require.NoError(t, d.Apply(t.Context(), ref, 1, req))
	until(t, d, deploy.Running, nil)
	if d.CheckDeployment(agent.Deployment{Memory: "256Mi"}) == nil {
		process := pid(t, dir, key)
		require.Eventually(t, func() bool { // the launcher joins its groups after its start
			return groupFile(t, process, "memory", "memory.limit_in_bytes", "memory.max") == strconv.Itoa(256<<20)
		}, 30*time.Second, 20*time.Millisecond)
		require.Equal(t, "224", groupFile(t, process, "pids", "pids.max", "pids.max"), "that of the agent, with the threads of the launcher")
	}
	remove(t, d)
	require.Empty(t, open(t, t.TempDir()).Unlimited())
}

// A runtime that needs more memory than its limit ends, and its deployment has the reason.
func TestARuntimeAboveItsMemoryEnds(t *testing.T) {
	t.Parallel()
	d := open(t, t.TempDir())
	req := demand
	req.Deployment.Memory = "32Mi"
	req.Config.SystemPrompt = strings.Repeat("a long prompt ", 4<<20) // of 56 MiB
	if d.CheckDeployment(req.Deployment) != nil {
		return
	}
	require.NoError(t, d.Apply(t.Context(), ref, 1, req))
	r := until(t, d, deploy.Exited, nil)
	require.Contains(t, r.Message, "its limit of 32Mi")
	remove(t, d)
}
