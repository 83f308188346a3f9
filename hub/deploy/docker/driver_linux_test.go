//go:build docker

package docker_test

import (
	"fmt"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/moby/moby/client"
	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/deploy/deploytest"
	"github.com/seed93082962/agenthost/hub/deploy/docker"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// open returns a driver of the engine.
func open(t *testing.T, change ...func(*docker.Config)) *docker.Driver {
	t.Helper()
	cfg := docker.Config{Host: socket, Image: runtimeImage, Grace: 2 * time.Second, Default: agent.Deployment{CPU: "500m"}}
	for _, f := range change {
		f(&cfg)
	}
	d, err := docker.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

// engine returns a client of the engine, as an operator has it.
func engine(t *testing.T) *client.Client {
	t.Helper()
	c, err := newClient()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// container returns the id of the container of a revision.
func container(t *testing.T, key, revision string) string {
	t.Helper()
	list, err := engine(t).ContainerList(t.Context(), client.ContainerListOptions{
		All: true, Filters: client.Filters{}.Add("label", "agenthost.key="+key, "agenthost.revision="+revision),
	})
	require.NoError(t, err)
	require.Len(t, list.Items, 1)
	return list.Items[0].ID
}

// names numbers the deployments of tests.
var names atomic.Int64

func TestDriver(t *testing.T) {
	deploytest.Suite(t, func(t *testing.T) deploytest.Harness {
		return deploytest.Harness{
			Name: fmt.Sprint("-", names.Add(1)),
			Listen: func(t *testing.T) net.Listener {
				l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", net.JoinHostPort(machine, "0"))
				require.NoError(t, err)
				return l
			},
			Driver: func(t *testing.T) deploy.Driver { return open(t) },
			Kill: func(t *testing.T, ref deploy.Ref, revision int64) {
				_, err := engine(t).ContainerKill(t.Context(), container(t, ref.Key, strconv.FormatInt(revision, 10)), client.ContainerKillOptions{})
				require.NoError(t, err)
			},
		}
	})
}
