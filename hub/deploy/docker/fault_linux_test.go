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
	calls(t, d, x.ref)
	require.NoError(t, startEngine())
	r := reach(t, d, x.ref, deploy.Exited)
	require.Equal(t, x.StartedAt, r.StartedAt)
	require.NoError(t, d.Apply(t.Context(), x.ref, 1, request(x.ref.Key, "away")))
	next := reach(t, d, x.ref, deploy.Running)
	require.Eventually(t, func() bool { return healthy(next.URL) }, patience, 20*time.Millisecond)
}

func TestEngineDoesNotRespond(t *testing.T) {
	x := start(t, open(t), "slow")
	p := startProxy(t, func(*http.Request) fault { return hangs })
	d := open(t, func(c *docker.Config) { c.Host, c.Timeout = p, 200*time.Millisecond })
	calls(t, d, x.ref)
}

// calls requires that all methods report a platform that is away.
func calls(t *testing.T, d *docker.Driver, ref deploy.Ref) {
	t.Helper()
	ctx := t.Context()
	for name, call := range map[string]func() error{
		"apply":   func() error { return d.Apply(ctx, ref, 1, request(ref.Key, "x")) },
		"observe": func() error { _, err := d.Observe(ctx, ref); return err },
		"keys":    func() error { return d.SetKeys(ctx, ref, nil) },
		"stop":    func() error { return d.Stop(ctx, ref, 1, 0) },
		"discard": func() error { return d.Discard(ctx, ref, 1) },
		"delete":  func() error { return d.Delete(ctx, ref) },
		"logs":    func() error { _, err := d.Logs(ctx, ref, 1, 10); return err },
		"list":    func() error { _, err := d.List(ctx, ref.Owner); return err },
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
			require.NoError(t, d.Discard(t.Context(), x.ref, 1))
			o, err := d.Observe(t.Context(), x.ref)
			require.NoError(t, err)
			return len(o.Runtimes) == 0
		}, patience, 20*time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		_ = d.Apply(ctx, x.ref, 1, request(x.ref.Key, "cut"))
		cancel()
		require.NoError(t, d.Apply(t.Context(), x.ref, 1, request(x.ref.Key, "cut")))
		r := reach(t, d, x.ref, deploy.Running)
		require.Eventually(t, func() bool { return healthy(r.URL) }, patience, 20*time.Millisecond)
		container(t, x.ref.Key, "1") // there is only one
	}
}

func TestImageIsMissing(t *testing.T) {
	t.Parallel()
	d := open(t, func(c *docker.Config) { c.Image = "missing:1" })
	ref := deploy.Ref{Key: "acme-missing", UID: "first", Owner: "owner of acme-missing"}
	require.ErrorContains(t, d.Apply(t.Context(), ref, 1, request(ref.Key, "missing")), "the Docker engine has no image missing:1: pull it there")
	o, err := d.Observe(t.Context(), ref)
	require.NoError(t, err)
	require.Empty(t, o.Runtimes)
	require.NoError(t, d.Delete(t.Context(), ref))
}

func TestContainerIsChangedByHand(t *testing.T) {
	t.Parallel()
	d := open(t)
	x := start(t, d, "hand")
	e := engine(t)
	_, err := e.ContainerStop(t.Context(), x.container, client.ContainerStopOptions{})
	require.NoError(t, err)
	reach(t, d, x.ref, deploy.Exited)
	require.NoError(t, d.Apply(t.Context(), x.ref, 1, request(x.ref.Key, "hand")))
	reach(t, d, x.ref, deploy.Running)
	_, err = e.ContainerRemove(t.Context(), x.container, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	require.NoError(t, err)
	reach(t, d, x.ref, "")
	require.NoError(t, d.Apply(t.Context(), x.ref, 1, request(x.ref.Key, "hand")))
	reach(t, d, x.ref, deploy.Running)
}
