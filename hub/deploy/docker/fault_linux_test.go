//go:build docker

package docker_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/moby/moby/client"
	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/deploy/docker"
)

// The tests of this file that stop the engine are not parallel: others wait until they have ended.

func TestEngineIsAway(t *testing.T) {
	d := open(t)
	x := start(t, d, "away")
	require.NoError(t, stopEngine())
	calls(t, d, x.claim)
	require.NoError(t, startEngine())
	r := reach(t, d, x.claim.Key, deploy.Exited)
	require.Equal(t, x.StartedAt, r.StartedAt)
	require.NoError(t, d.Apply(t.Context(), x.claim, 1, request(x.claim.Key, "away")))
	next := reach(t, d, x.claim.Key, deploy.Running)
	require.Eventually(t, func() bool { return healthy(next.URL) }, patience, 20*time.Millisecond)
}

func TestEngineDoesNotRespond(t *testing.T) {
	x := start(t, open(t), "slow")
	p := startProxy(t, func(*http.Request) fault { return hangs })
	d := open(t, func(c *docker.Config) { c.Host, c.Timeout = p, 200*time.Millisecond })
	calls(t, d, x.claim)
}

// calls requires that all methods report a platform that is away.
func calls(t *testing.T, d *docker.Driver, claim deploy.Claim) {
	t.Helper()
	ctx := t.Context()
	for name, call := range map[string]func() error{
		"apply":   func() error { return d.Apply(ctx, claim, 1, request(claim.Key, "x")) },
		"observe": func() error { _, err := d.Observe(ctx, claim.Key); return err },
		"keys":    func() error { return d.SetKeys(ctx, claim, nil) },
		"stop":    func() error { return d.Stop(ctx, claim, 1, 0) },
		"discard": func() error { return d.Discard(ctx, claim, 1) },
		"delete":  func() error { return d.Delete(ctx, claim) },
		"logs":    func() error { _, err := d.Logs(ctx, claim.Key, 1, 10); return err },
		"list":    func() error { _, err := d.List(ctx, claim.Owner); return err },
	} {
		require.ErrorIs(t, call(), deploy.ErrUnavailable, name)
	}
}

// An apply that is interrupted anywhere is completed by a later one, and leaves nothing.
func TestInterruptedApply(t *testing.T) {
	t.Parallel()
	d := open(t)
	x := start(t, d, "cut")
	for wait := time.Millisecond; wait < 2*time.Second; wait *= 2 {
		require.Eventually(t, func() bool {
			require.NoError(t, d.Discard(t.Context(), x.claim, 1))
			o, err := d.Observe(t.Context(), x.claim.Key)
			require.NoError(t, err)
			return len(o.Runtimes) == 0
		}, patience, 20*time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		_ = d.Apply(ctx, x.claim, 1, request(x.claim.Key, "cut"))
		cancel()
		x.claim.Fence++ // another hub continues
		require.NoError(t, d.Apply(t.Context(), x.claim, 1, request(x.claim.Key, "cut")))
		r := reach(t, d, x.claim.Key, deploy.Running)
		require.Eventually(t, func() bool { return healthy(r.URL) }, patience, 20*time.Millisecond)
		container(t, x.claim.Key, "1") // there is only one
	}
}

func TestImageIsMissing(t *testing.T) {
	t.Parallel()
	d := open(t, func(c *docker.Config) { c.Image = "missing:1" })
	claim := deploy.Claim{Key: "acme-missing", Fence: 1, Owner: "owner of acme-missing"}
	require.ErrorContains(t, d.Apply(t.Context(), claim, 1, request(claim.Key, "missing")), "the Docker engine has no image missing:1: pull it there")
	o, err := d.Observe(t.Context(), claim.Key)
	require.NoError(t, err)
	require.Empty(t, o.Runtimes)
	require.NoError(t, d.Delete(t.Context(), claim))
}

func TestContainerIsChangedByHand(t *testing.T) {
	t.Parallel()
	d := open(t)
	x := start(t, d, "hand")
	e := engine(t)
	_, err := e.ContainerStop(t.Context(), x.container, client.ContainerStopOptions{})
	require.NoError(t, err)
	reach(t, d, x.claim.Key, deploy.Exited)
	require.NoError(t, d.Apply(t.Context(), x.claim, 1, request(x.claim.Key, "hand")))
	reach(t, d, x.claim.Key, deploy.Running)
	_, err = e.ContainerRemove(t.Context(), x.container, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	require.NoError(t, err)
	reach(t, d, x.claim.Key, "")
	require.NoError(t, d.Apply(t.Context(), x.claim, 1, request(x.claim.Key, "hand")))
	reach(t, d, x.claim.Key, deploy.Running)

	// Without the record of the claim, the containers have the fence and the owner.
	claims, err := e.ContainerList(t.Context(), client.ContainerListOptions{All: true, Filters: client.Filters{}.Add("name", `\.claim\.`).Add("label", "agenthost.key="+x.claim.Key)})
	require.NoError(t, err)
	require.Len(t, claims.Items, 1)
	_, err = e.ContainerRemove(t.Context(), claims.Items[0].ID, client.ContainerRemoveOptions{})
	require.NoError(t, err)
	former, foreign := x.claim, x.claim
	former.Fence--
	require.ErrorIs(t, d.Stop(t.Context(), former, 1, 0), deploy.ErrFenced)
	foreign.Owner, foreign.Fence = "another", 100
	require.ErrorIs(t, d.Stop(t.Context(), foreign, 1, 0), deploy.ErrForeign)
	require.NoError(t, d.SetKeys(t.Context(), x.claim, nil))
}
