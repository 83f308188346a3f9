package deploytest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/client"
)

type subject struct {
	t *testing.T
	Harness
	driver deploy.Driver
	ref    deploy.Ref
}

// request returns the request of the demo agent with a description.
func request(key, description string) deploy.Request {
	return deploy.Request{
		Key: key, AgentID: "helper",
		Config: agent.Agent{Model: "demo", Description: description, Provider: agent.Provider{Protocol: agent.ProtocolDemo}},
		Env:    map[string]agent.Secret{"AGENT_HTTP_API_KEY": apiKey},
	}
}

func (s *subject) observe() deploy.Observed {
	s.t.Helper()
	o, err := s.driver.Observe(s.t.Context(), s.ref)
	require.NoError(s.t, err)
	return o
}

// reach repeats a call until the runtime of a revision has the phase, which is "" for none.
func (s *subject) reach(phase deploy.Phase, revision int64, call func(context.Context) error) (r deploy.Runtime) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		if r = s.observe().Runtime(revision); r.Phase == phase {
			return true
		}

		require.NoError(s.t, call(s.t.Context()))
		return false
	}, patience, 20*time.Millisecond)
	return r
}

func (s *subject) apply(revision int64) deploy.Runtime {
	s.t.Helper()
	return s.applyRequest(revision, request(s.ref.Key, "first"))
}

func (s *subject) applyRequest(revision int64, req deploy.Request) deploy.Runtime {
	s.t.Helper()
	r := s.reach(deploy.Running, revision, func(ctx context.Context) error { return s.driver.Apply(ctx, s.ref, revision, req) })
	require.NotZero(s.t, r.StartedAt)
	s.ready(r)
	return r
}

func (s *subject) stop(revision int64) {
	s.t.Helper()
	s.reach(deploy.Stopped, revision, func(ctx context.Context) error { return s.driver.Stop(ctx, s.ref, revision, 0) })
}

func (s *subject) delete() {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		require.NoError(s.t, s.driver.Delete(s.t.Context(), s.ref))
		return !s.observe().Exists
	}, patience, 20*time.Millisecond)
	require.Empty(s.t, s.observe().Runtimes)
}

// ready waits until the agent of a runtime is ready.
func (s *subject) ready(r deploy.Runtime) {
	s.t.Helper()
	c, err := client.New(client.Config{BaseURL: r.URL, APIKey: apiKey})
	require.NoError(s.t, err)
	require.Eventually(s.t, func() bool {
		agents, err := c.Agents(s.t.Context())
		return err == nil && len(agents) == 1 && agents[0].ID == "helper" && agents[0].Status == "ready"
	}, patience, 20*time.Millisecond)
}

// withoutMessages returns runtimes without what a platform reports about their start, which it may
// change later.
func withoutMessages(runtimes ...deploy.Runtime) []deploy.Runtime {
	for i := range runtimes {
		runtimes[i].Message, runtimes[i].Preparing = "", false
	}

	return runtimes
}
