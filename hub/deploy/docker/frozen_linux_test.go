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

	"github.com/moby/moby/client"
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

// sweeps returns a driver that removes what is unused in seconds.
func sweeps(t *testing.T) *docker.Driver {
	return open(t, func(c *docker.Config) { c.Timeout = 200 * time.Millisecond })
}

// nothing waits until the engine has nothing of a deployment, also no record of its claim. A hub
// lists its deployments from time to time.
func nothing(t *testing.T, d *docker.Driver, claim deploy.Claim) {
	t.Helper()
	label := client.Filters{}.Add("label", "agenthost.key="+claim.Key)
	require.Eventually(t, func() bool {
		_, _ = d.List(t.Context(), claim.Owner) // it may take longer than the timeout
		containers, err := engine(t).ContainerList(t.Context(), client.ContainerListOptions{All: true, Filters: label})
		require.NoError(t, err)
		for _, c := range containers.Items {
			require.Contains(t, c.Names[0], ".claim", "it has no container")
		}
		volumes, err := engine(t).VolumeList(t.Context(), client.VolumeListOptions{Filters: label})
		require.NoError(t, err)
		return len(containers.Items)+len(volumes.Items) == 0 && len(networks(t, claim.Owner)) == 0
	}, patience, 50*time.Millisecond)
}

// A hub is frozen at a call of an apply. In the meantime, another hub deletes the deployment, and
// the record of its claim is removed. The call has no effect that remains when the engine gets it.
func TestFrozenHubAfterTheRecordWasRemoved(t *testing.T) {
	t.Parallel()
	require.ErrorContains(t, joins(t, open(t, withoutImage), "owner of nothing", "acme"), noImage) // the image of records exists from now on
	for call := range 17 {
		t.Run(fmt.Sprint("call ", call+1), func(t *testing.T) {
			t.Parallel()
			f := freeze(t, "", call+1)
			key := fmt.Sprintf("acme-frozen-%d", names.Add(1))
			claim := deploy.Claim{Key: key, Fence: 1, Owner: "owner of " + key}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			applied := make(chan error, 1)
			go func() { applied <- f.driver.Apply(ctx, claim, 1, request(key, "acme")) }()
			select {
			case <-f.reached:
			case err := <-applied:
				require.Fail(t, "an apply has more calls", "%v", err)
			}
			other := open(t)
			next := claim
			next.Fence++
			require.Eventually(t, func() bool {
				require.NoError(t, other.Delete(t.Context(), next))
				o, err := other.Observe(t.Context(), key)
				require.NoError(t, err)
				return !o.Exists
			}, patience, 20*time.Millisecond)
			sweeper := sweeps(t)
			nothing(t, sweeper, next)
			cancel() // the time of the method is over
			require.Error(t, <-applied)
			close(f.late)
			<-f.done
			nothing(t, sweeper, next)
		})
	}
}

// A deployment that exists retains its record, and one that is deleted has a record until it is
// removed. A deployment of the same name begins again.
func TestRecordOfADeletedDeployment(t *testing.T) {
	t.Parallel()
	d, sweeper := open(t), sweeps(t)
	x := start(t, d, "acme")
	records := func() int {
		all, err := engine(t).ContainerList(t.Context(), client.ContainerListOptions{All: true, Filters: client.Filters{}.Add("label", "agenthost.key="+x.claim.Key)})
		require.NoError(t, err)
		return len(all.Items) - 1 // the runtime
	}
	gone := deploy.Claim{Key: x.claim.Key + "-gone", Fence: 7, Owner: x.claim.Owner}
	require.NoError(t, d.Apply(t.Context(), gone, 1, request(gone.Key, "acme")))
	require.Eventually(t, func() bool {
		require.NoError(t, d.Delete(t.Context(), gone))
		o, err := d.Observe(t.Context(), gone.Key)
		require.NoError(t, err)
		return !o.Exists
	}, patience, 20*time.Millisecond)
	former := gone
	former.Fence--
	require.ErrorIs(t, d.Apply(t.Context(), former, 1, request(gone.Key, "acme")), deploy.ErrFenced)
	require.Eventually(t, func() bool {
		_, _ = sweeper.List(t.Context(), gone.Owner)
		all, err := engine(t).ContainerList(t.Context(), client.ContainerListOptions{All: true, Filters: client.Filters{}.Add("label", "agenthost.key="+gone.Key)})
		require.NoError(t, err)
		return len(all.Items) == 0
	}, patience, 50*time.Millisecond)
	require.Equal(t, 1, records())
	x.claim.Fence--
	require.ErrorIs(t, d.Stop(t.Context(), x.claim, 1, 0), deploy.ErrFenced)
	x.claim.Fence++
	again := start(t, d, "acme")
	require.True(t, healthy(again.URL))
}
