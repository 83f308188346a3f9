//go:build docker

package docker_test

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	containers "github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/deploy/docker"
)

// networks returns the networks of an owner.
func networks(t *testing.T, owner string) []network.Summary {
	t.Helper()
	list, err := engine(t).NetworkList(t.Context(), client.NetworkListOptions{Filters: client.Filters{}.Add("label", "agenthost.owner="+owner)})
	require.NoError(t, err)
	return list.Items
}

// joins applies a deployment whose image is missing, after it has a network.
func joins(t *testing.T, d *docker.Driver, owner, tenant string) error {
	ref := deploy.Ref{Key: fmt.Sprintf("%s-%d", tenant, names.Add(1)), UID: "first", Owner: owner}
	return d.Apply(t.Context(), ref, 1, request(ref.Key, tenant))
}

const noImage = "the Docker engine has no image missing:1"

func withoutImage(c *docker.Config) { c.Image = "missing:1" }

// More tenants than the 31 ranges of the engine itself have a network each. Runtimes of the first
// and the last run, and do not reach each other. The networks that have no container are removed.
// The engine takes a third of a second for each.
func TestManyTenants(t *testing.T) {
	t.Parallel()
	const tenants, owner = 64, "owner of many"
	d, failing := open(t), open(t, withoutImage)
	first := start(t, d, "first")
	var all sync.WaitGroup
	errs := make([]error, tenants-2)
	for i := range 4 {
		all.Go(func() {
			for n := i; n < len(errs); n += 4 {
				errs[n] = joins(t, failing, owner, fmt.Sprint("tenant", n))
			}
		})
	}
	all.Wait()
	for _, err := range errs {
		require.ErrorContains(t, err, noImage)
	}
	require.Len(t, networks(t, owner), tenants-2)
	last := start(t, d, "last")
	found, err := engine(t).ContainerInspect(t.Context(), last.container, client.ContainerInspectOptions{})
	require.NoError(t, err)
	for _, n := range found.Container.NetworkSettings.Networks {
		require.False(t, connects(t, first.container, n.IPAddress.String()+":8080"))
	}
	require.Eventually(t, func() bool {
		_, err := d.List(t.Context(), owner)
		require.NoError(t, err)
		return len(networks(t, owner)) == 0
	}, 5*patience, time.Second)
}

// Ranges that others have are not used, and the error names what to change when all are in use.
func TestSubnetsAreInUse(t *testing.T) {
	t.Parallel()
	e := engine(t)
	made, err := e.NetworkCreate(t.Context(), "of-an-operator", client.NetworkCreateOptions{
		Driver: "bridge", IPAM: &network.IPAM{Config: []network.IPAMConfig{{Subnet: netip.MustParsePrefix("10.250.0.0/26")}}},
	})
	require.NoError(t, err)
	d := open(t, withoutImage, func(c *docker.Config) {
		c.Subnets = []netip.Prefix{netip.MustParsePrefix("10.250.0.0/25"), netip.MustParsePrefix("10.250.1.0/26"), netip.MustParsePrefix("10.99.0.0/26")}
	})
	const owner = "owner of ranges"
	require.ErrorContains(t, joins(t, d, owner, "one"), noImage)
	require.ErrorContains(t, joins(t, d, owner, "one"), noImage, "it has a network")
	require.ErrorContains(t, joins(t, d, owner, "two"), noImage)
	require.ErrorContains(t, joins(t, d, owner, "three"), "all 4 networks for tenants in 10.250.0.0/25, 10.250.1.0/26, 10.99.0.0/26 are in use: the operator adds a range to docker.subnets",
		"one is that of the operator, and one has an address of the machine")
	_, err = e.NetworkRemove(t.Context(), made.ID, client.NetworkRemoveOptions{})
	require.NoError(t, err)
	require.ErrorContains(t, joins(t, d, owner, "three"), noImage)
	require.Eventually(t, func() bool {
		_, err := d.List(t.Context(), owner)
		require.NoError(t, err)
		return len(networks(t, owner)) == 0
	}, patience, 100*time.Millisecond)
}

// A tenant with more runtimes than a network has addresses has another one.
func TestTenantWithSeveralNetworks(t *testing.T) {
	t.Parallel()
	d := open(t)
	x := start(t, d, "large")
	e := engine(t)
	found, err := e.ContainerInspect(t.Context(), x.container, client.ContainerInspectOptions{})
	require.NoError(t, err)
	var ids []string
	for range 50 {
		made, err := e.ContainerCreate(t.Context(), client.ContainerCreateOptions{
			Config: &containers.Config{Image: runtimeImage, Labels: map[string]string{
				"agenthost.owner": x.ref.Owner, "agenthost.tenant": "large", "agenthost.network": found.Container.Config.Labels["agenthost.network"],
			}},
			HostConfig: &containers.HostConfig{NetworkMode: "none"},
		})
		require.NoError(t, err)
		ids = append(ids, made.ID)
	}
	require.NoError(t, d.Apply(t.Context(), x.ref, 2, request(x.ref.Key, "large")))
	require.Len(t, networks(t, x.ref.Owner), 2)
	for _, id := range ids {
		_, err := e.ContainerRemove(t.Context(), id, client.ContainerRemoveOptions{})
		require.NoError(t, err)
	}
	second, err := e.ContainerInspect(t.Context(), container(t, x.ref.Key, "2"), client.ContainerInspectOptions{})
	require.NoError(t, err)
	for _, n := range second.Container.NetworkSettings.Networks {
		require.False(t, connects(t, x.container, n.IPAddress.String()+":8080"))
	}
}

// startHubs starts containers as those of hubs are, in a network of their own.
func startHubs(t *testing.T, n int) (ids []string) {
	t.Helper()
	e := engine(t)
	own, err := e.NetworkCreate(t.Context(), "of-hubs", client.NetworkCreateOptions{
		Driver: "bridge", IPAM: &network.IPAM{Config: []network.IPAMConfig{{Subnet: netip.MustParsePrefix("10.251.1.0/24")}}},
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := engine(t).NetworkRemove(context.WithoutCancel(t.Context()), own.ID, client.NetworkRemoveOptions{})
		require.NoError(t, err)
	})
	for range n {
		made, err := e.ContainerCreate(t.Context(), client.ContainerCreateOptions{
			Config:     &containers.Config{Image: runtimeImage, Entrypoint: []string{"/bin/bash", "-c", "read line"}, OpenStdin: true},
			HostConfig: &containers.HostConfig{NetworkMode: containers.NetworkMode(own.ID)},
		})
		require.NoError(t, err)
		t.Cleanup(func() {
			_, err := engine(t).ContainerRemove(context.WithoutCancel(t.Context()), made.ID, client.ContainerRemoveOptions{Force: true})
			require.NoError(t, err)
		})
		_, err = e.ContainerStart(t.Context(), made.ID, client.ContainerStartOptions{})
		require.NoError(t, err)
		ids = append(ids, made.ID)
	}
	return ids
}

// A hub that removes the last runtime of a tenant leaves its network, and does not disconnect
// another hub, which may be about to create a runtime there. The last hub that leaves removes the
// network.
func TestNetworkOfTwoHubs(t *testing.T) {
	t.Parallel()
	ids := startHubs(t, 2)
	first := open(t, func(c *docker.Config) { c.HubContainer = ids[0] })
	second := open(t, func(c *docker.Config) { c.HubContainer = ids[1] })
	x := prepared(t, "acme")
	x.start(t, first, request(x.ref.Key, "acme"))
	reach(t, second, x.ref, deploy.Running)
	require.Len(t, addresses(t, ids[0]), 2)
	require.Len(t, addresses(t, ids[1]), 2)
	require.Eventually(t, func() bool {
		require.NoError(t, first.Delete(t.Context(), x.ref))
		o, err := first.Observe(t.Context(), x.ref)
		require.NoError(t, err)
		return !o.Exists
	}, patience, 20*time.Millisecond)
	require.Len(t, addresses(t, ids[0]), 1)
	require.Len(t, addresses(t, ids[1]), 2, "the other hub is connected")
	require.Eventually(t, func() bool {
		_, err := second.List(t.Context(), x.ref.Owner)
		require.NoError(t, err)
		return len(networks(t, x.ref.Owner)) == 0
	}, patience, 100*time.Millisecond)
	require.Len(t, addresses(t, ids[1]), 1)
}
