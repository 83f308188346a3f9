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
	_, err := engine(t).ContainerPrune(t.Context(), client.ContainerPruneOptions{Filters: client.Filters{}.Add("label", "agenthost.key="+x.ref.Key)})
	require.NoError(t, err)
	list, err := engine(t).ContainerList(t.Context(), client.ContainerListOptions{All: true, Filters: client.Filters{}.Add("label", "agenthost.key="+x.ref.Key)})
	require.NoError(t, err)
	require.Empty(t, list.Items)
}

// stopAndPrune leaves only the volumes of a deployment. A hub lists its deployments from time to
// time.
func (x *deployed) stopAndPrune(t *testing.T, d *docker.Driver) {
	t.Helper()
	require.Eventually(t, func() bool {
		require.NoError(t, d.Stop(t.Context(), x.ref, 1, 0))
		o, err := d.Observe(t.Context(), x.ref)
		require.NoError(t, err)
		return o.Runtime(1).Phase == deploy.Stopped
	}, patience, 100*time.Millisecond)
	x.prune(t)
	require.Eventually(t, func() bool {
		keys, err := d.List(t.Context(), x.ref.Owner)
		require.NoError(t, err)
		require.Equal(t, []deploy.Ref{x.ref}, keys)
		return len(networks(t, x.ref.Owner)) == 0
	}, patience, 100*time.Millisecond)
}

// again starts the first revision.
func (x *deployed) again(t *testing.T, d *docker.Driver) {
	t.Helper()
	require.NoError(t, d.Apply(t.Context(), x.ref, 1, request(x.ref.Key, "acme")))
	x.Runtime = reach(t, d, x.ref, deploy.Running)
	x.container = container(t, x.ref.Key, "1")
	require.Eventually(t, func() bool { return healthy(x.URL) }, patience, 20*time.Millisecond)
}

// remove deletes the deployment, and requires that nothing is left.
func (x *deployed) remove(t *testing.T, d *docker.Driver) {
	t.Helper()
	require.Eventually(t, func() bool {
		require.NoError(t, d.Delete(t.Context(), x.ref))
		o, err := d.Observe(t.Context(), x.ref)
		require.NoError(t, err)
		return !o.Exists
	}, patience, 20*time.Millisecond)
	left(t.Context(), t, x.ref.Key)
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
	o, err := d.Observe(t.Context(), x.ref)
	require.NoError(t, err)
	require.True(t, o.Exists)
	all := volumesOf(t, x.ref.Key)
	require.Len(t, all, 1, "the volume with the keys is removed")
	require.Equal(t, "agenthost-"+x.ref.Key+".first", all[0].Name)
	other := x.ref
	other.UID = "second"
	require.NoError(t, d.Delete(t.Context(), other), "it is not its volume")
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
	other := &deployed{ref: deploy.Ref{Key: x.ref.Key, UID: "other", Owner: "another owner of " + x.ref.Key}}
	require.NoError(t, d.Apply(t.Context(), other.ref, 1, request(other.ref.Key, "acme")))
	reach(t, d, other.ref, deploy.Running)
	require.Eventually(t, func() bool {
		require.NoError(t, d.Delete(t.Context(), other.ref))
		o, err := d.Observe(t.Context(), other.ref)
		require.NoError(t, err)
		return !o.Exists
	}, patience, 20*time.Millisecond)
	x.again(t, d)
	require.Contains(t, shell(t, x.container, "echo $(</data/work/file)"), "of-the-first")
}

// Volumes with a name of the driver, but not with its labels, are neither mounted nor deleted.
func TestVolumeOfSomeoneElse(t *testing.T) {
	t.Parallel()
	d := open(t)
	x := prepared(t, "acme")
	keep(t, "agenthost-"+x.ref.Key, nil)
	keep(t, "agenthost-"+x.ref.Key+".first", map[string]string{"agenthost.key": "another"})
	err := d.Apply(t.Context(), x.ref, 1, request(x.ref.Key, "acme"))
	require.ErrorContains(t, err, "the Docker engine has a volume agenthost-"+x.ref.Key+".first that is not of this deployment")
	require.Error(t, d.Apply(t.Context(), x.ref, 1, request(x.ref.Key, "acme")), "it is not started by a repetition")
	o, err := d.Observe(t.Context(), x.ref)
	require.NoError(t, err)
	require.Empty(t, o.Runtimes)
	x.ref.UID = "second"
	x.start(t, d, request(x.ref.Key, "acme"))
	require.Equal(t, "agenthost-"+x.ref.Key+".second", mounted(t, x.container))
}

// A volume with the name of former versions is that of the deployment if it has its labels.
func TestVolumeOfAFormerVersion(t *testing.T) {
	t.Parallel()
	x := prepared(t, "acme")
	x.ref.UID = ""
	_, err := engine(t).VolumeCreate(t.Context(), client.VolumeCreateOptions{
		Name: "agenthost-" + x.ref.Key, Labels: map[string]string{"agenthost.key": x.ref.Key, "agenthost.owner": x.ref.Owner},
	})
	require.NoError(t, err)
	d := open(t)
	x.start(t, d, request(x.ref.Key, "acme"))
	require.Equal(t, "agenthost-"+x.ref.Key, mounted(t, x.container))
}

// A hub is frozen when it removes the volume of a deployment. Another hub completes that, and
// deploys the agent again. The late call does not remove the volume of the next deployment.
func TestFrozenHubRemovesAVolume(t *testing.T) {
	t.Parallel()
	x, d := prepared(t, "acme"), open(t)
	x.start(t, d, request(x.ref.Key, "acme"))
	x.stopAndPrune(t, d)
	f := freeze(t, "^DELETE .*/volumes/agenthost-", 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	deleted, former := make(chan error, 1), x.ref
	go func() { deleted <- f.driver.Delete(ctx, former) }()
	<-f.reached
	x.remove(t, d)
	x.ref.UID = "second"
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
