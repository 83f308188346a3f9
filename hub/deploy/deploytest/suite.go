package deploytest

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
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

	// Name is part of the key and of the owners of this deployment, if others may be on the platform.
	Name string

	// Listen returns a listener that runtimes reach. Defaults to one on a loopback address.
	Listen func(t *testing.T) net.Listener

	// Kill ends the runtime of a revision as a crash does.
	Kill func(t *testing.T, ref deploy.Ref, revision int64)
}

// Suite tests the rules of deploy.Driver. open returns a platform without deployments.
func Suite(t *testing.T, open func(t *testing.T) Harness) {
	for name, test := range map[string]func(*subject){
		"life":                (*subject).life,
		"a new revision":      (*subject).revision,
		"runs of a revision":  (*subject).drained,
		"impatience":          (*subject).impatient,
		"a crash":             (*subject).crash,
		"another deployment":  (*subject).another,
		"another hub":         (*subject).adopted,
		"unknown deployments": (*subject).unknown,
		"concurrent calls":    (*subject).concurrent,
		"new keys":            (*subject).keys,
		"limits":              (*subject).limits,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := open(t)
			s := &subject{t: t, Harness: h, driver: h.Driver(t), ref: deploy.Ref{Key: "default-helper" + h.Name, UID: "first", Owner: "owner" + h.Name}}
			test(s)
			s.delete()
		})
	}
}

func (s *subject) life() {
	first := s.apply(1)
	require.Equal(s.t, withoutMessages(first), withoutMessages(s.apply(1)), "it is applied already")
	all, err := s.driver.List(s.t.Context(), s.ref.Owner)
	require.NoError(s.t, err)
	require.Equal(s.t, []deploy.Ref{s.ref}, all)
	require.Eventually(s.t, func() bool {
		lines, err := s.driver.Logs(s.t.Context(), s.ref, 1, 10)
		require.NoError(s.t, err)
		return len(lines) > 0 && len(lines) <= 10
	}, patience, 20*time.Millisecond)
	s.stop(1)
	require.True(s.t, s.apply(1).StartedAt.After(first.StartedAt))
}

// revision starts a second revision next to the first one, which continues until it is discarded.
func (s *subject) revision() {
	first := s.apply(1)
	second := s.apply(2)
	require.NotEqual(s.t, first.URL, second.URL)
	require.Equal(s.t, withoutMessages(first, second), withoutMessages(s.observe().Runtimes...))
	s.ready(first)
	s.Kill(s.t, s.ref, 2)
	s.reach(deploy.Exited, 2, func(context.Context) error { return nil })
	s.ready(first)
	second = s.apply(2)
	s.reach("", 1, func(ctx context.Context) error { return s.driver.Discard(ctx, s.ref, 1) })
	require.Equal(s.t, withoutMessages(second), withoutMessages(s.observe().Runtimes...))
	s.ready(second)
	lines, err := s.driver.Logs(s.t.Context(), s.ref, 1, 10)
	require.NoError(s.t, err)
	require.Empty(s.t, lines)
	require.NoError(s.t, s.driver.Discard(s.t.Context(), s.ref, 1))
	s.stop(2)
	s.apply(3)
}

func (s *subject) crash() {
	first := s.apply(1)
	s.Kill(s.t, s.ref, 1)
	r := s.reach(deploy.Exited, 1, func(context.Context) error { return nil })
	require.Equal(s.t, first.StartedAt, r.StartedAt)
	require.True(s.t, s.apply(1).StartedAt.After(first.StartedAt))
	s.Kill(s.t, s.ref, 1)
	s.reach(deploy.Exited, 1, func(context.Context) error { return nil })
	s.stop(1)
}

// run starts a run of a revision. release ends it, and result receives its text.
func (s *subject) run(revision int64) (r deploy.Runtime, release func(), result chan string) {
	s.t.Helper()
	held, entered := make(chan struct{}), make(chan struct{}, 1)
	upstream := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case entered <- struct{}{}:
		default: // of a later run
		}

		select {
		case <-held:
		case <-r.Context().Done():
			return
		}

		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, `data: {"choices":[{"index":0,"delta":{"content":"finished"},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n") // the runtime may have been killed
	}))
	if s.Listen != nil {
		require.NoError(s.t, upstream.Listener.Close())
		upstream.Listener = s.Listen(s.t)
	}

	upstream.Start()
	s.t.Cleanup(upstream.Close)
	req := request(s.ref.Key, "first")
	req.Config.Model, req.Config.Provider = "held", agent.Provider{Protocol: agent.ProtocolOpenAI, BaseURL: agent.Secret(upstream.URL), APIKey: "key"}
	r = s.applyRequest(revision, req)
	result = make(chan string, 1)
	go func() {
		answer, err := s.call(s.t.Context(), r)
		if err != nil {
			answer.Text = err.Error()
		}

		result <- answer.Text
	}()
	select {
	case <-entered:
	case text := <-result:
		require.Fail(s.t, "the run ended", text)
	case <-time.After(patience):
		require.Fail(s.t, "the run did not start")
	}

	return r, sync.OnceFunc(func() { close(held) }), result
}

func (s *subject) call(ctx context.Context, r deploy.Runtime) (wire.RunResponse, error) {
	c, err := client.New(client.Config{BaseURL: r.URL, APIKey: apiKey, HTTPClient: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}})
	if err != nil {
		return wire.RunResponse{}, err
	}

	return c.Complete(ctx, "helper", wire.RunRequest{Message: "hello"})
}

// drained ends a revision that has a run: it accepts no other one, and ends after its run.
func (s *subject) drained() {
	first, release, result := s.run(1)
	defer release()
	second := s.apply(2)
	stop := func(ctx context.Context) error { return s.driver.Stop(ctx, s.ref, 1, time.Hour) }
	s.reach(deploy.Stopping, 1, stop)
	require.Eventually(s.t, func() bool { // a run that is accepted before the runtime has the request to end does not end
		ctx, cancel := context.WithTimeout(s.t.Context(), time.Second)
		defer cancel()
		_, err := s.call(ctx, first)
		return err != nil && ctx.Err() == nil
	}, patience, 20*time.Millisecond)
	s.driver = s.Driver(s.t) // another hub continues
	require.NoError(s.t, stop(s.t.Context()))
	draining := s.observe().Runtime(1)
	require.Equal(s.t, deploy.Stopping, draining.Phase)
	require.Equal(s.t, first.URL, draining.URL, "a caller can cancel its run")
	require.Empty(s.t, result)
	release()
	require.Equal(s.t, "finished", <-result)
	s.reach(deploy.Stopped, 1, stop)
	require.Equal(s.t, second, s.observe().Runtime(2))
	s.ready(second)
}

// impatient ends a revision that drains, without patience for its run.
func (s *subject) impatient() {
	_, release, result := s.run(1)
	defer release()
	s.reach(deploy.Stopping, 1, func(ctx context.Context) error { return s.driver.Stop(ctx, s.ref, 1, time.Hour) })
	s.stop(1)
	require.NotEqual(s.t, "finished", <-result)
}

// another has deployments of the same key next to the first one, of this database and of another
// one. Calls for one have no effect on the others.
func (s *subject) another() {
	first, mine, ctx := s.apply(1), s.ref, s.t.Context()
	for _, other := range []deploy.Ref{
		{Key: mine.Key, UID: "second", Owner: mine.Owner}, {Key: mine.Key, UID: "third", Owner: "other" + s.Name}, {Key: mine.Key, Owner: mine.Owner},
	} {
		s.ref = other
		require.False(s.t, s.observe().Exists)
		require.NoError(s.t, s.driver.SetKeys(ctx, other, []agent.Secret{"other"}))
		require.NoError(s.t, s.driver.Stop(ctx, other, 1, 0))
		require.NoError(s.t, s.driver.Discard(ctx, other, 1))
		s.delete()
		require.NotEqual(s.t, first.URL, s.apply(1).URL)
		all, err := s.driver.List(ctx, other.Owner)
		require.NoError(s.t, err)
		require.Contains(s.t, all, other)
		s.delete()
		s.ref = mine
		require.Equal(s.t, withoutMessages(first), withoutMessages(s.observe().Runtimes...))
		s.ready(first)
	}
}

func (s *subject) adopted() {
	first, second := s.apply(1), s.apply(2)
	s.driver = s.Driver(s.t)
	require.Equal(s.t, withoutMessages(first, second), withoutMessages(s.observe().Runtimes...))
	require.Equal(s.t, withoutMessages(first), withoutMessages(s.apply(1)))
	s.stop(1)
	s.driver = s.Driver(s.t)
	s.stop(1)
	require.Equal(s.t, second, s.apply(2))
	s.apply(1)
}

// keys replaces the API key of runtimes that continue.
func (s *subject) keys() {
	first, second := s.apply(1), s.apply(2)
	set := func(keys ...agent.Secret) { require.NoError(s.t, s.driver.SetKeys(s.t.Context(), s.ref, keys)) }
	set(apiKey, "next-key")
	s.accepts(first, apiKey, true)
	s.accepts(first, "next-key", true)
	s.accepts(second, "next-key", true)
	set("next-key")
	s.accepts(first, apiKey, false)
	s.accepts(first, "next-key", true)
	s.accepts(second, apiKey, false)
	require.Equal(s.t, withoutMessages(first, second), withoutMessages(s.observe().Runtimes...), "they were not started again")
	s.stop(1)
	s.accepts(s.apply(1), apiKey, true)
}

// accepts waits until a runtime accepts a key, or no longer does.
func (s *subject) accepts(r deploy.Runtime, key string, accepted bool) {
	s.t.Helper()
	c, err := client.New(client.Config{BaseURL: r.URL, APIKey: key})
	require.NoError(s.t, err)
	require.Eventually(s.t, func() bool {
		_, err := c.Agents(s.t.Context())
		e, rejected := errors.AsType[*client.Error](err)
		return accepted && err == nil || !accepted && rejected && e.Status == http.StatusUnauthorized
	}, patience, 20*time.Millisecond, "%s %v", key, accepted)
}

func (s *subject) unknown() {
	ctx := s.t.Context()
	require.NoError(s.t, s.driver.SetKeys(ctx, s.ref, []agent.Secret{apiKey}))
	require.NoError(s.t, s.driver.Stop(ctx, s.ref, 1, 0))
	require.NoError(s.t, s.driver.Discard(ctx, s.ref, 1))
	require.NoError(s.t, s.driver.Delete(ctx, s.ref))
	lines, err := s.driver.Logs(ctx, s.ref, 1, 10)
	require.NoError(s.t, err)
	require.Empty(s.t, lines)
	all, err := s.driver.List(ctx, s.ref.Owner)
	require.NoError(s.t, err)
	require.Empty(s.t, all)
}

// concurrent applies one revision through two hubs.
func (s *subject) concurrent() {
	other := s.Driver(s.t)
	done := make(chan error, 1)
	go func() {
		var err error
		for range 20 {
			if err = other.Apply(s.t.Context(), s.ref, 1, request(s.ref.Key, "first")); err != nil {
				break
			}
		}

		done <- err
	}()
	first := s.apply(1)
	require.NoError(s.t, <-done)
	again := s.apply(1)
	require.Equal(s.t, first.StartedAt, again.StartedAt, "one runtime was started")
	require.Equal(s.t, first.URL, again.URL)
}
