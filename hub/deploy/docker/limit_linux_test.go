//go:build docker

package docker_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/moby/moby/client"
	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// The container of an agent has the limits of the agent, and those of the driver for the others.
func TestLimitsOfAnAgent(t *testing.T) {
	key := fmt.Sprint("default-helper-", names.Add(1))
	ref := deploy.Ref{Key: key, UID: "first", Owner: "first"}
	d := open(t)
	req := deploy.Request{
		Key: key, AgentID: "helper", Config: agent.Agent{Model: "demo", Provider: agent.Provider{Protocol: agent.ProtocolDemo}},
		Env: map[string]agent.Secret{deploy.EnvAPIKey: "key"},
	}
	phase := func(revision int64) deploy.Phase {
		o, err := d.Observe(t.Context(), ref)
		require.NoError(t, err)
		return o.Runtime(revision).Phase
	}
	t.Cleanup(func() {
		require.Eventually(t, func() bool {
			o, err := d.Observe(context.WithoutCancel(t.Context()), ref)
			require.NoError(t, err)
			require.NoError(t, d.Delete(context.WithoutCancel(t.Context()), ref))
			return !o.Exists
		}, time.Minute, 20*time.Millisecond)
	})
	for revision, wanted := range map[int64]agent.Deployment{1: {}, 2: {Memory: "192Mi", CPU: "250m", Processes: 100, Replicas: 1}, 3: {Memory: "256Mi"}} {
		req.Deployment = wanted
		require.Eventually(t, func() bool {
			require.NoError(t, d.Apply(t.Context(), ref, revision, req))
			return phase(revision) == deploy.Running
		}, time.Minute, 20*time.Millisecond)
		found, err := engine(t).ContainerInspect(t.Context(), container(t, key, fmt.Sprint(revision)), client.ContainerInspectOptions{})
		require.NoError(t, err)
		limits := found.Container.HostConfig.Resources
		want := map[int64][]int64{1: {1 << 30, 5e8, 512}, 2: {192 << 20, 25e7, 100}, 3: {256 << 20, 5e8, 512}}[revision]
		require.Equal(t, want, []int64{limits.Memory, limits.NanoCPUs, *limits.PidsLimit})
		require.Equal(t, limits.Memory, limits.MemorySwap, "there is no swap")
	}
	req.Deployment = agent.Deployment{Replicas: 2}
	require.ErrorContains(t, d.Apply(t.Context(), ref, 4, req), "deployment.replicas is 2, and the docker deployer starts one runtime")
}
