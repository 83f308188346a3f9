//go:build docker

package docker_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/deploy/docker"
)

// frozen is a hub that is frozen at a call of the engine, which the engine gets later.
type frozen struct {
	driver        *docker.Driver
	calls         *regexp.Regexp // the calls that are counted
	reached, late chan struct{}  // closed at the call, and when the engine may get it
	done          chan struct{}  // closed when the engine has done it

	mu   sync.Mutex // guards the fields below
	left int        // calls until that one
	held *http.Request
}

// freeze returns a hub that is frozen at the n-th of certain calls.
func freeze(t *testing.T, calls string, n int) *frozen {
	f := &frozen{calls: regexp.MustCompile(calls), left: n, reached: make(chan struct{}), late: make(chan struct{}), done: make(chan struct{})}
	p := startProxy(t, f.decide, f.handled)
	f.driver = open(t, func(c *docker.Config) { c.Host = p })
	return f
}

func (f *frozen) decide(r *http.Request) fault {
	if !f.calls.MatchString(r.Method+" "+r.URL.String()) || !f.hold(r) {
		return none
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return lostRequest
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	close(f.reached)
	<-f.late
	return lostResponse
}

// hold reports whether a call is the one at which the hub is frozen.
func (f *frozen) hold(r *http.Request) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.left--; f.left != 0 {
		return false
	}
	f.held = r
	return true
}

func (f *frozen) handled(r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r == f.held {
		close(f.done)
	}
}

// nothing waits until the engine has nothing of a deployment that hubs know as deleted.
func nothing(t *testing.T, d *docker.Driver, ref deploy.Ref) {
	t.Helper()
	require.Eventually(t, func() bool {
		all, err := d.List(t.Context(), ref.Owner)
		require.NoError(t, err)
		for _, one := range all {
			require.NoError(t, d.Delete(t.Context(), one))
		}
		return len(all)+len(networks(t, ref.Owner)) == 0
	}, patience, 50*time.Millisecond)
	left(t.Context(), t, ref.Key)
}

// A hub is frozen at a call of an apply. In the meantime, another hub deletes the deployment. What
// the engine has of it when it gets the call is listed, and deleted again.
func TestFrozenHubAfterADelete(t *testing.T) {
	t.Parallel()
	for call := range 10 {
		t.Run(fmt.Sprint("call ", call+1), func(t *testing.T) {
			t.Parallel()
			f := freeze(t, "", call+1)
			key := fmt.Sprintf("acme-frozen-%d", names.Add(1))
			ref := deploy.Ref{Key: key, UID: "first", Owner: "owner of " + key}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			applied := make(chan error, 1)
			go func() { applied <- f.driver.Apply(ctx, ref, 1, request(key, "acme")) }()
			select {
			case <-f.reached:
			case err := <-applied:
				require.Fail(t, "an apply has more calls", "%v", err)
			}
			other := open(t)
			require.Eventually(t, func() bool {
				require.NoError(t, other.Delete(t.Context(), ref))
				o, err := other.Observe(t.Context(), ref)
				require.NoError(t, err)
				return !o.Exists
			}, patience, 20*time.Millisecond)
			nothing(t, other, ref)
			cancel() // the time of the method is over
			require.Error(t, <-applied)
			close(f.late)
			<-f.done
			nothing(t, other, ref)
		})
	}
}
