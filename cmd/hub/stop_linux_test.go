package main_test

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/cmd/internal/daemontest"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
)

// A hub that ends says that its agents continue, and how to stop them. They run again with the next
// hub. While a hub serves, and after one was killed, the command decides by itself.
func TestStopAgents(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		p := openProduct(t, "DATABASE_URL", url)
		for _, name := range []string{"guide", "other", "resting"} {
			p.send(201, "POST", adminAgents, `{"name":"`+name+`","providerId":"demo","model":"demo"}`)
			p.deploy(name)
		}
		p.send(202, "POST", adminAgents+"/resting/deploy/stop", "")
		p.until("resting", func(s map[string]any) bool { return s["state"] == "stopped" })
		stop := func() (string, error) { return once(t, p.env, "stop-agents") }
		_, err := stop()
		require.ErrorContains(t, err, "a hub serves this database and would start its agents again: stop it first")
		require.Len(t, runtimes(p.path), 2)

		p.Signal(t, syscall.SIGTERM)
		require.Zero(t, p.Exit(t))
		require.Regexp(t, `The hub has ended\. Agents that continue to run without it: 2\. hub stop-agents stops them\.\n$`, p.Stdout.String())
		out, err := stop()
		require.NoError(t, err)
		require.Equal(t, "2 agents stopped\n", out)
		require.Empty(t, runtimes(p.path))
		out, err = stop()
		require.NoError(t, err)
		require.Equal(t, "0 agents stopped\n", out)

		p.Process = spawn(t, p.path, p.env)
		require.Eventually(t, func() bool { return len(runtimes(p.path)) == 2 }, daemontest.Patience, 20*time.Millisecond)
		p.until("resting", func(s map[string]any) bool { return s["state"] == "stopped" })
		kill(t, p.Process)
		out, err = stop()
		require.NoError(t, err)
		require.Equal(t, "2 agents stopped\n", out)
		require.Empty(t, runtimes(p.path))

		for deployer, env := range map[string][]string{
			"none": nil, "docker": {"DOCKER_HOST", "unix:///does/not/exist"},
			"kubernetes": {"KUBERNETES_NAMESPACE", "a", "KUBECONFIG", kubeconfig(t)},
		} {
			_, err = once(t, slices.Concat(p.env, []string{"DEPLOYER", deployer}, env), "stop-agents")
			require.ErrorContains(t, err, "DEPLOYER is "+deployer+": this command is for agents that are processes of this machine; agenthost undeploy --stop")
		}

		p.Process = spawn(t, p.path, p.env) // nothing continues without it: no text
		p.send(202, "POST", adminAgents+"/guide/deploy/stop", "")
		p.remove("other")
		p.Signal(t, syscall.SIGTERM)
		require.Zero(t, p.Exit(t))
		require.NotContains(t, p.Stdout.String(), "continue to run")
	})
}
