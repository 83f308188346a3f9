package deploytest

import (
	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/agent"
)

// limits applies deployment settings of an agent. No platform has several replicas without a bus
// and a limit of processes together.
func (s *subject) limits() {
	denied := request(s.ref.Key, "first")
	denied.Deployment = agent.Deployment{Replicas: 2, Processes: 64}
	want := s.driver.CheckDeployment(denied.Deployment)
	require.Error(s.t, want)
	require.EqualError(s.t, s.driver.Apply(s.t.Context(), s.ref, 1, denied), want.Error())
	require.False(s.t, s.observe().Exists)
	for _, d := range []agent.Deployment{{}, {Replicas: 1}, {Memory: "512Mi"}} {
		if err := s.driver.CheckDeployment(d); err != nil {
			require.Contains(s.t, err.Error(), "deployment.memory")
			continue
		}

		req := request(s.ref.Key, "first")
		req.Deployment = d
		s.applyRequest(1, req)
		s.stop(1)
	}
}
