package deploytest

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/client"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// patience bounds the time that a test waits for a state.
const patience = 30 * time.Second

const apiKey = "the-key"

// Harness is the subject of the suite.
type Harness struct {
	// Driver returns a driver of the platform. Each call returns another one for the same
	// deployments, as after a restart of the hub.
	Driver func(t *testing.T) deploy.Driver

	// Kill ends the runtime of a deployment as a crash does.
	Kill func(t *testing.T, key string)
}

// Suite tests the rules of deploy.Driver. open returns a platform without deployments.
func Suite(t *testing.T, open func(t *testing.T) Harness) {
	for name, test := range map[string]func(*subject){
		"life":                (*subject).life,
		"a new revision":      (*subject).revision,
		"a crash":             (*subject).crash,
		"a former holder":     (*subject).fenced,
		"another hub":         (*subject).adopted,
		"unknown deployments": (*subject).unknown,
		"concurrent calls":    (*subject).concurrent,
		"another database":    (*subject).foreign,
		"new keys":            (*subject).keys,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := open(t)
			s := &subject{t: t, Harness: h, driver: h.Driver(t), claim: deploy.Claim{Key: "default-helper", Fence: 7, Owner: "first"}}
			test(s)
			s.reach(deploy.Absent, 0, func(ctx context.Context) error { return s.driver.Delete(ctx, s.claim) })
		})
	}
}

type subject struct {
	t *testing.T
	Harness
	driver deploy.Driver
	claim  deploy.Claim
}

// request returns the request of the demo agent with a description.
func request(key, description string) deploy.Request {
	return deploy.Request{
		Key: key, AgentID: "helper",
		Config: agent.Agent{Model: "demo", Description: description, Provider: agent.Provider{Protocol: agent.ProtocolDemo}},
		Env:    map[string]agent.Secret{"AGENT_HTTP_API_KEY": apiKey},
	}
}

// reach repeats a call until the phase is observed, and the revision unless it is 0.
func (s *subject) reach(phase deploy.Phase, revision int64, call func(context.Context) error) deploy.Observed {
	s.t.Helper()
	var o deploy.Observed
	require.Eventually(s.t, func() bool {
		var err error
		o, err = s.driver.Observe(s.t.Context(), s.claim.Key)
		require.NoError(s.t, err)
		if o.Phase == phase && (revision == 0 || o.Revision == revision) {
			return true
		}
		require.NoError(s.t, call(s.t.Context()))
		return false
	}, patience, 5*time.Millisecond)
	return o
}

func (s *subject) apply(revision int64) deploy.Observed {
	s.t.Helper()
	o := s.reach(deploy.Running, revision, func(ctx context.Context) error {
		return s.driver.Apply(ctx, s.claim, revision, request(s.claim.Key, "first"))
	})
	require.NotZero(s.t, o.StartedAt)
	s.ready(o)
	return o
}

func (s *subject) stop() {
	s.t.Helper()
	s.reach(deploy.Stopped, 0, func(ctx context.Context) error { return s.driver.Stop(ctx, s.claim) })
}

func (s *subject) start() deploy.Observed {
	s.t.Helper()
	o := s.reach(deploy.Running, 0, func(ctx context.Context) error { return s.driver.Start(ctx, s.claim) })
	s.ready(o)
	return o
}

// ready waits until the agent of a runtime is ready.
func (s *subject) ready(o deploy.Observed) {
	s.t.Helper()
	c, err := client.New(client.Config{BaseURL: o.URL, APIKey: apiKey})
	require.NoError(s.t, err)
	require.Eventually(s.t, func() bool {
		agents, err := c.Agents(s.t.Context())
		return err == nil && len(agents) == 1 && agents[0].ID == "helper" && agents[0].Status == wire.StatusReady
	}, patience, 5*time.Millisecond)
}

func (s *subject) life() {
	first := s.apply(1)
	again := s.apply(1)
	require.Equal(s.t, first, again, "it is applied already")
	keys, err := s.driver.List(s.t.Context(), s.claim.Owner)
	require.NoError(s.t, err)
	require.Equal(s.t, []string{s.claim.Key}, keys)
	lines, err := s.driver.Logs(s.t.Context(), s.claim.Key, 10)
	require.NoError(s.t, err)
	require.NotEmpty(s.t, lines)
	require.LessOrEqual(s.t, len(lines), 10)
	s.stop()
	second := s.start()
	require.EqualValues(s.t, 1, second.Revision)
	require.True(s.t, second.StartedAt.After(first.StartedAt))
}

func (s *subject) revision() {
	first := s.apply(1)
	second := s.apply(2)
	require.True(s.t, second.StartedAt.After(first.StartedAt))
	s.stop()
	s.apply(3)
}

func (s *subject) crash() {
	first := s.apply(1)
	s.Kill(s.t, s.claim.Key)
	o := s.reach(deploy.Exited, 1, func(context.Context) error { return nil })
	require.Equal(s.t, first.StartedAt, o.StartedAt)
	require.True(s.t, s.start().StartedAt.After(first.StartedAt))
	s.Kill(s.t, s.claim.Key)
	s.reach(deploy.Exited, 1, func(context.Context) error { return nil })
	s.stop()
}

func (s *subject) fenced() {
	first := s.apply(1)
	former, ctx := s.claim, s.t.Context()
	former.Fence--
	require.ErrorIs(s.t, s.driver.Apply(ctx, former, 2, request(former.Key, "other")), deploy.ErrFenced)
	e, ok := errors.AsType[*deploy.FencedError](s.driver.Start(ctx, former))
	require.True(s.t, ok)
	require.Equal(s.t, s.claim.Fence, e.Fence, "a hub can take a higher one")
	require.ErrorIs(s.t, s.driver.Start(ctx, former), deploy.ErrFenced)
	require.ErrorIs(s.t, s.driver.Stop(ctx, former), deploy.ErrFenced)
	require.ErrorIs(s.t, s.driver.Delete(ctx, former), deploy.ErrFenced)
	now, err := s.driver.Observe(ctx, s.claim.Key)
	require.NoError(s.t, err)
	require.Equal(s.t, first, now)
	s.reach(deploy.Absent, 0, func(ctx context.Context) error { return s.driver.Delete(ctx, s.claim) })
	require.ErrorIs(s.t, s.driver.Apply(ctx, former, 2, request(former.Key, "other")), deploy.ErrFenced, "a deleted deployment does not come back")
}

func (s *subject) adopted() {
	first := s.apply(1)
	s.driver = s.Driver(s.t)
	s.claim.Fence++
	now, err := s.driver.Observe(s.t.Context(), s.claim.Key)
	require.NoError(s.t, err)
	require.Equal(s.t, first, now)
	require.Equal(s.t, first, s.apply(1))
	s.stop()
	s.driver = s.Driver(s.t)
	s.stop()
	s.start()
}

// foreign uses a platform with two databases, whose deployments have the same key.
func (s *subject) foreign() {
	first, ctx := s.apply(1), s.t.Context()
	other := deploy.Claim{Key: s.claim.Key, Fence: s.claim.Fence + 10, Owner: "second"}
	require.ErrorIs(s.t, s.driver.Apply(ctx, other, 2, request(other.Key, "other")), deploy.ErrForeign)
	require.ErrorIs(s.t, s.driver.Start(ctx, other), deploy.ErrForeign)
	require.ErrorIs(s.t, s.driver.Stop(ctx, other), deploy.ErrForeign)
	require.ErrorIs(s.t, s.driver.Delete(ctx, other), deploy.ErrForeign)
	keys, err := s.driver.List(ctx, other.Owner)
	require.NoError(s.t, err)
	require.Empty(s.t, keys)
	require.Equal(s.t, first, s.apply(1))
	s.reach(deploy.Absent, 0, func(ctx context.Context) error { return s.driver.Delete(ctx, s.claim) })
	s.claim = other
	s.apply(1)
}

// keys replaces the API key of a runtime that continues.
func (s *subject) keys() {
	first := s.apply(1)
	set := func(keys ...agent.Secret) { require.NoError(s.t, s.driver.SetKeys(s.t.Context(), s.claim, keys)) }
	set(apiKey, "next-key")
	s.accepts(first, apiKey, true)
	s.accepts(first, "next-key", true)
	set("next-key")
	s.accepts(first, apiKey, false)
	s.accepts(first, "next-key", true)
	now, err := s.driver.Observe(s.t.Context(), s.claim.Key)
	require.NoError(s.t, err)
	require.Equal(s.t, first, now, "it was not started again")
	former := s.claim
	former.Fence--
	require.ErrorIs(s.t, s.driver.SetKeys(s.t.Context(), former, []agent.Secret{apiKey}), deploy.ErrFenced)
	s.stop()
	set("third-key")
	again := s.reach(deploy.Running, 1, func(ctx context.Context) error { return s.driver.Start(ctx, s.claim) })
	s.accepts(again, "third-key", true)
	s.accepts(again, "next-key", false)
	s.accepts(s.apply(2), apiKey, true)
}

// accepts waits until a runtime accepts a key, or no longer does.
func (s *subject) accepts(o deploy.Observed, key string, accepted bool) {
	s.t.Helper()
	c, err := client.New(client.Config{BaseURL: o.URL, APIKey: key})
	require.NoError(s.t, err)
	require.Eventually(s.t, func() bool {
		_, err := c.Agents(s.t.Context())
		e, rejected := errors.AsType[*client.Error](err)
		return accepted && err == nil || !accepted && rejected && e.Status == http.StatusUnauthorized
	}, patience, 20*time.Millisecond, "%s %v", key, accepted)
}

func (s *subject) unknown() {
	ctx := s.t.Context()
	require.NoError(s.t, s.driver.SetKeys(ctx, s.claim, []agent.Secret{apiKey}))
	require.NoError(s.t, s.driver.Stop(ctx, s.claim))
	require.NoError(s.t, s.driver.Start(ctx, s.claim))
	require.NoError(s.t, s.driver.Delete(ctx, s.claim))
	lines, err := s.driver.Logs(ctx, s.claim.Key, 10)
	require.NoError(s.t, err)
	require.Empty(s.t, lines)
	keys, err := s.driver.List(ctx, s.claim.Owner)
	require.NoError(s.t, err)
	require.Empty(s.t, keys)
}

// concurrent applies one revision through two hubs, of which the second has the lease.
func (s *subject) concurrent() {
	other := s.Driver(s.t)
	done := make(chan error, 1)
	go func() {
		var err error
		for range 20 {
			if err = other.Apply(s.t.Context(), s.claim, 1, request(s.claim.Key, "first")); err != nil {
				break
			}
		}
		done <- err
	}()
	first := s.apply(1)
	require.NoError(s.t, <-done)
	require.Equal(s.t, first, s.apply(1), "one runtime was started")
}
