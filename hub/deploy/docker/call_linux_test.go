//go:build docker

package docker_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/deploy/docker"
)

// life is a deployment whose driver has one call of the engine that fails.
type life struct {
	t      *testing.T
	open   func() *docker.Driver
	driver *docker.Driver
	ref    deploy.Ref

	mu     sync.Mutex // guards the fields below
	left   int        // calls until the one that fails
	failed bool
	cancel context.CancelFunc // of the step in progress, or nil
}

// call returns what happens with a call of the engine.
func (l *life) call(kind fault) fault {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cancel == nil || l.failed {
		return none
	}
	if l.left--; l.left > 0 {
		return none
	}
	l.failed = true
	if kind != lostResponse {
		l.cancel() // the hub is killed
	}
	return kind
}

// step calls a method. If a call of the engine has failed, the hub calls it once more, or another
// one after this one was killed.
func (l *life) step(do func(context.Context) error) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), patience)
	defer cancel()
	set := func(cancel context.CancelFunc) (failed bool) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.cancel = cancel
		return l.failed
	}
	before := set(cancel)
	err := do(ctx)
	if set(nil) == before {
		require.NoError(l.t, err)
		return
	}
	if errors.Is(err, context.Canceled) {
		l.driver = l.open()
	}
	require.NoError(l.t, do(l.t.Context()), "after %v", err)
}

// deleted requires that nothing of a deployment is left.
func deleted(t *testing.T, d *docker.Driver, ref deploy.Ref) {
	t.Helper()
	_, err := d.List(t.Context(), ref.Owner) // as a hub does from time to time
	require.NoError(t, err)
	left(t.Context(), t, ref.Key)
}

// The response of each call of the engine while a deployment is applied, stopped and deleted is
// lost, or the hub is killed before or after the call. A repetition, or the next hub, completes
// the method, and nothing is left or doubled.
func TestEachCallOfTheEngineFails(t *testing.T) {
	t.Parallel()
	for _, kind := range []fault{lostResponse, hangs, hangsAfter} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			calls := 0
			for failed := true; failed; calls++ {
				l := &life{t: t, left: calls + 1}
				p := startProxy(t, func(*http.Request) fault { return l.call(kind) })
				l.open = func() *docker.Driver { return open(t, func(c *docker.Config) { c.Host = p }) }
				l.driver = l.open()
				key := fmt.Sprintf("acme-call-%d", names.Add(1))
				l.ref = deploy.Ref{Key: key, UID: "first", Owner: "owner of " + key}
				l.step(func(ctx context.Context) error { return l.driver.Apply(ctx, l.ref, 1, request(key, "acme")) })
				r := reach(t, l.driver, l.ref, deploy.Running)
				require.Eventually(t, func() bool { return healthy(r.URL) }, patience, 20*time.Millisecond)
				container(t, key, "1")
				stop := func(ctx context.Context) error { return l.driver.Stop(ctx, l.ref, 1, 0) }
				l.step(stop)
				require.Eventually(t, func() bool {
					o, err := l.driver.Observe(t.Context(), l.ref)
					require.NoError(t, err)
					if o.Runtime(1).Phase != deploy.Stopped {
						require.NoError(t, stop(t.Context()))
					}
					return o.Runtime(1).Phase == deploy.Stopped
				}, patience, 100*time.Millisecond)
				l.step(func(ctx context.Context) error { return l.driver.Delete(ctx, l.ref) })
				deleted(t, l.driver, l.ref)
				failed = l.failed
			}
			require.Greater(t, calls, 8)
		})
	}
}

// A slow engine delays deployments and fails none.
func TestSlowEngine(t *testing.T) {
	t.Parallel()
	p := startProxy(t, func(r *http.Request) fault {
		pause(r, 300*time.Millisecond)
		return none
	})
	d := open(t, func(c *docker.Config) { c.Host = p })
	x := start(t, d, "acme")
	require.NoError(t, d.Stop(t.Context(), x.ref, 1, 0))
	reach(t, d, x.ref, deploy.Stopped)
}

// The engine ends at each call of an apply that changes something, by request or by a kill, before
// and after it has done the call.
func TestEngineRestartsDuringApply(t *testing.T) {
	for _, call := range []string{`/networks/create`, `create\?name=agenthost-\S+\.1`, `/archive`, `/start`} {
		for kind, signal := range map[fault]syscall.Signal{lostRequest: syscall.SIGTERM, lostResponse: syscall.SIGKILL} {
			t.Run(fmt.Sprint(call, " ", kind), func(t *testing.T) { restarts(t, regexp.MustCompile(call), kind, signal) })
		}
	}
}

// restarts ends the engine at a call of an apply.
func restarts(t *testing.T, call *regexp.Regexp, kind fault, signal syscall.Signal) {
	t.Helper()
	var once sync.Once
	ended := make(chan error, 1)
	end := func(r *http.Request) {
		if call.MatchString(r.URL.String()) {
			once.Do(func() { ended <- errors.Join(endEngine(signal), startEngine()) })
		}
	}
	var hit sync.Once
	p := startProxy(t, func(r *http.Request) (f fault) {
		if call.MatchString(r.URL.String()) {
			hit.Do(func() { f = kind })
		}
		return f
	}, end)
	key := fmt.Sprintf("acme-restart-%d", names.Add(1))
	ref := deploy.Ref{Key: key, UID: "first", Owner: "owner of " + key}
	d := open(t, func(c *docker.Config) { c.Host = p })
	err := d.Apply(t.Context(), ref, 1, request(key, "acme")) // it may also begin again
	require.NoError(t, <-ended)
	require.NoError(t, d.Apply(t.Context(), ref, 1, request(key, "acme")), "after %v", err)
	r := reach(t, d, ref, deploy.Running)
	require.Eventually(t, func() bool { return healthy(r.URL) }, patience, 20*time.Millisecond)
	container(t, key, "1")
	require.Eventually(t, func() bool {
		require.NoError(t, d.Delete(t.Context(), ref))
		o, err := d.Observe(t.Context(), ref)
		require.NoError(t, err)
		return !o.Exists
	}, patience, 20*time.Millisecond)
	deleted(t, d, ref)
}
