package kubernetes_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/deploy/kubernetes"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// The pods of an agent have the limits and the number of the agent. The API server stores them as
// they were applied: nothing is repaired.
func TestDeploymentSettingsOfAnAgent(t *testing.T) {
	p := newPlace(t)
	d := p.open(t, func(c *kubernetes.Config) { c.Bus = startNATS(t) })
	req := request()
	req.Deployment = agent.Deployment{Memory: "1024Mi", CPU: "1000m", Replicas: 2}
	apply := func() error { return d.Apply(t.Context(), ref, 1, req) }
	reach(t, d, 1, deploy.Running, "", apply)
	require.Eventually(t, func() bool { return len(p.pods(key, "1")) == 2 }, patience, 50*time.Millisecond)
	for _, pod := range p.pods(key, "1") {
		resources := pod.Spec.Containers[0].Resources
		require.EqualValues(t, 1<<30, resources.Limits.Memory().Value())
		require.EqualValues(t, 1000, resources.Limits.Cpu().MilliValue())
		require.EqualValues(t, 100, resources.Requests.Cpu().MilliValue())
	}
	o, err := d.Observe(t.Context(), ref)
	require.NoError(t, err)
	require.Equal(t, deploy.Running, o.Runtime(1).Phase, "it does not differ from what was applied")

	req.Deployment = agent.Deployment{}
	reach(t, d, 2, deploy.Running, "", func() error { return d.Apply(t.Context(), ref, 2, req) })
	for _, pod := range p.pods(key, "2") {
		require.EqualValues(t, 256<<20, pod.Spec.Containers[0].Resources.Limits.Memory().Value())
	}
	p.end(t, d)
}
