//go:build docker

package docker_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/api/types/volume"
	"github.com/moby/moby/client"
	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/deploy/docker"
)

// pruning is held while containers are pruned, which the engine does once at a time.
var pruning sync.Mutex

// prune removes all containers of a deployment that do not run, as docker container prune does.
func (x *deployed) prune(t *testing.T) {
	t.Helper()
	pruning.Lock()
	defer pruning.Unlock()
	_, err := engine(t).ContainerPrune(t.Context(), client.ContainerPruneOptions{Filters: client.Filters{}.Add("label", "agenthost.key="+x.claim.Key)})
	require.NoError(t, err)
	list, err := engine(t).ContainerList(t.Context(), client.ContainerListOptions{All: true, Filters: client.Filters{}.Add("label", "agenthost.key="+x.claim.Key)})
	require.NoError(t, err)
	require.Empty(t, list.Items)
}

// stopAndPrune leaves only the volumes of a deployment. A hub lists its deployments from time to
// time.
func (x *deployed) stopAndPrune(t *testing.T, d *docker.Driver) {
	t.Helper()
	require.Eventually(t, func() bool {
		require.NoError(t, d.Stop(t.Context(), x.claim, 1, 0))
		o, err := d.Observe(t.Context(), x.claim.Key)
		require.NoError(t, err)
		return o.Runtime(1).Phase == deploy.Stopped
	}, patience, 100*time.Millisecond)
	x.prune(t)
	require.Eventually(t, func() bool {
		keys, err := d.List(t.Context(), x.claim.Owner)
		require.NoError(t, err)
		require.Equal(t, []string{x.claim.Key}, keys)
		return len(networks(t, x.claim.Owner)) == 0
	}, patience, 100*time.Millisecond)
}

// again starts the first revision.
func (x *deployed) again(t *testing.T, d *docker.Driver) {
	t.Helper()
	require.NoError(t, d.Apply(t.Context(), x.claim, 1, request(x.claim.Key, "acme")))
	x.Runtime = reach(t, d, x.claim.Key, deploy.Running)
	x.container = container(t, x.claim.Key, "1")
	require.Eventually(t, func() bool { return healthy(x.URL) }, patience, 20*time.Millisecond)
}

// remove deletes the deployment, and requires that nothing is left.
func (x *deployed) remove(t *testing.T, d *docker.Driver) {
	t.Helper()
	require.Eventually(t, func() bool {
		require.NoError(t, d.Delete(t.Context(), x.claim))
		o, err := d.Observe(t.Context(), x.claim.Key)
		require.NoError(t, err)
		return !o.Exists
	}, patience, 20*time.Millisecond)
	left(t.Context(), t, x.claim.Key)
}

// volumesOf returns the volumes with the key of a deployment.
func volumesOf(t *testing.T, key string) []volume.Volume {
	t.Helper()
	list, err := engine(t).VolumeList(t.Context(), client.VolumeListOptions{Filters: client.Filters{}.Add("label", "agenthost.key="+key)})
	require.NoError(t, err)
	return list.Items
}

// keep creates a volume of someone else.
func keep(t *testing.T, name string, labels map[string]string) {
	t.Helper()
	_, err := engine(t).VolumeCreate(t.Context(), client.VolumeCreateOptions{Name: name, Labels: labels})
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := engine(t).VolumeRemove(context.WithoutCancel(t.Context()), name, client.VolumeRemoveOptions{})
		require.NoError(t, err, "it was not removed")
	})
}

// mounted returns the name of the volume of data of a container.
func mounted(t *testing.T, id string) string {
	t.Helper()
	found, err := engine(t).ContainerInspect(t.Context(), id, client.ContainerInspectOptions{})
	require.NoError(t, err)
	for _, m := range found.Container.Mounts {
		if m.Destination == "/data" {
			return m.Name
		}
	}
	return ""
}

// An operator removes all containers that do not run. The stopped deployment exists, and starts
// with its files or is deleted. The volume with the keys is removed by the next listing.
func TestStoppedDeploymentAfterContainerPrune(t *testing.T) {
	t.Parallel()
	d := open(t)
	x := start(t, d, "acme")
	shell(t, x.container, "echo of-before >/data/work/file")
	x.stopAndPrune(t, d)
	o, err := d.Observe(t.Context(), x.claim.Key)
	require.NoError(t, err)
	require.True(t, o.Exists)
	require.Equal(t, x.claim.Owner, o.Owner)
	all := volumesOf(t, x.claim.Key)
	require.Len(t, all, 1, "the volume with the keys is removed")
	require.Equal(t, "agenthost-"+x.claim.Key+".1", all[0].Name)
	former := x.claim
	former.Fence--
	require.ErrorIs(t, d.Delete(t.Context(), former), deploy.ErrFenced, "the volume has the fence that created it")
	x.again(t, d)
	require.Contains(t, shell(t, x.container, "echo $(</data/work/file)"), "of-before")
	x.stopAndPrune(t, d)
	x.remove(t, d)
}

// A hub with another database neither uses nor deletes a deployment of which only the volume is
// left.
func TestVolumeOfAnotherDatabase(t *testing.T) {
	t.Parallel()
	d := open(t)
	x := start(t, d, "acme")
	shell(t, x.container, "echo of-the-first >/data/work/file")
	x.stopAndPrune(t, d)
	other := deploy.Claim{Key: x.claim.Key, Fence: x.claim.Fence + 5, Owner: "another owner of " + x.claim.Key}
	require.ErrorIs(t, d.Apply(t.Context(), other, 1, request(other.Key, "acme")), deploy.ErrForeign)
	require.ErrorIs(t, d.Delete(t.Context(), other), deploy.ErrForeign)
	x.again(t, d)
	require.Contains(t, shell(t, x.container, "echo $(</data/work/file)"), "of-the-first")
}

// Volumes with a name of the driver, but not with its labels, are neither mounted nor deleted.
func TestVolumeOfSomeoneElse(t *testing.T) {
	t.Parallel()
	d := open(t)
	x := prepared(t, "acme")
	keep(t, "agenthost-"+x.claim.Key, nil)
	keep(t, "agenthost-"+x.claim.Key+".1", map[string]string{"agenthost.key": "another"})
	err := d.Apply(t.Context(), x.claim, 1, request(x.claim.Key, "acme"))
	require.ErrorContains(t, err, "the Docker engine has a volume agenthost-"+x.claim.Key+".1 that is not of this deployment")
	require.Error(t, d.Apply(t.Context(), x.claim, 1, request(x.claim.Key, "acme")), "it is not started by a repetition")
	o, err := d.Observe(t.Context(), x.claim.Key)
	require.NoError(t, err)
	require.Empty(t, o.Runtimes)
	x.claim.Fence = 2
	x.start(t, d, request(x.claim.Key, "acme"))
	require.Equal(t, "agenthost-"+x.claim.Key+".2", mounted(t, x.container))
	x.claim.Fence = 3
	require.NoError(t, d.Discard(t.Context(), x.claim, 1))
	require.NoError(t, d.Apply(t.Context(), x.claim, 2, request(x.claim.Key, "acme")))
	require.Equal(t, "agenthost-"+x.claim.Key+".2", mounted(t, container(t, x.claim.Key, "2")), "another hub continues with the volume")
}

// A volume with the name of former versions is that of the deployment if it has its labels.
func TestVolumeOfAFormerVersion(t *testing.T) {
	t.Parallel()
	x := prepared(t, "acme")
	_, err := engine(t).VolumeCreate(t.Context(), client.VolumeCreateOptions{
		Name: "agenthost-" + x.claim.Key, Labels: map[string]string{"agenthost.key": x.claim.Key, "agenthost.owner": x.claim.Owner},
	})
	require.NoError(t, err)
	d := open(t)
	x.start(t, d, request(x.claim.Key, "acme"))
	require.Equal(t, "agenthost-"+x.claim.Key, mounted(t, x.container))
}

// A hub is frozen when it removes the volume of a deployment. Another hub completes that, and
// deploys the agent again. The late call does not remove the volume of the next deployment.
func TestFrozenHubRemovesAVolume(t *testing.T) {
	t.Parallel()
	x, d := prepared(t, "acme"), open(t)
	x.start(t, d, request(x.claim.Key, "acme"))
	x.stopAndPrune(t, d)
	f := freeze(t, "^DELETE .*/volumes/agenthost-", 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	deleted, former := make(chan error, 1), x.claim
	go func() { deleted <- f.driver.Delete(ctx, former) }()
	<-f.reached
	x.claim.Fence++
	x.remove(t, d)
	x.claim.Fence++
	x.again(t, d)
	shell(t, x.container, "echo of-the-next >/data/work/file")
	x.stopAndPrune(t, d)
	cancel()
	require.Error(t, <-deleted)
	close(f.late)
	<-f.done
	x.again(t, d)
	require.Contains(t, shell(t, x.container, "echo $(</data/work/file)"), "of-the-next")
}
