package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/api/types/volume"
	"github.com/moby/moby/client"

	"github.com/seed93082962/agenthost/hub/deploy"
)

// A deployment has one volume of data. It is found by its labels only: another program, or a hub
// with another database, may have a volume of any name. Its name has the fence of the claim that
// created it, so that a hub that was frozen does not remove the volume of a later deployment of
// the key. Before, it had the name without a fence.
//
// Each container has a volume of its request. The engine generates its name, and removes it with
// the container. If it removes only the container, the label of the revision finds the volume.

// volumeName returns the name with which a claim creates the volume of data.
func volumeName(claim deploy.Claim) string {
	return fmt.Sprintf("%s%s.%d", namePrefix, claim.Key, claim.Fence)
}

// volumeFence returns the fence of the claim that created a volume, or 0 if its name has none.
func volumeFence(v volume.Volume) int64 {
	text, _ := strings.CutPrefix(v.Name, namePrefix+v.Labels[labelKey]+".")
	fence, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0
	}

	return fence
}

// volumes returns the volumes of a deployment, of all owners, the first one created first.
func (d *Driver) volumes(ctx context.Context, key string) ([]volume.Volume, error) {
	list, err := d.engine.VolumeList(ctx, client.VolumeListOptions{Filters: client.Filters{}.Add("label", labelKey+"="+key)})
	if err != nil {
		return nil, fault(ctx, "list volumes", err)
	}

	slices.SortFunc(list.Items, func(a, b volume.Volume) int {
		return cmp.Or(cmp.Compare(a.CreatedAt, b.CreatedAt), cmp.Compare(volumeFence(a), volumeFence(b)), cmp.Compare(a.Name, b.Name))
	})
	return list.Items, nil
}

// data returns the name of the volume of data of a deployment, or the one with which the claim
// creates it.
func (f deployment) data(claim deploy.Claim) string {
	for _, v := range f.volumes {
		if v.Labels[labelOwner] == claim.Owner && v.Labels[labelRevision] == "" {
			return v.Name
		}
	}

	return volumeName(claim)
}

// mounts returns the volumes of a container.
func mounts(claim deploy.Claim, revision, data string) []mount.Mount {
	labels := map[string]string{labelKey: claim.Key, labelOwner: claim.Owner}
	private := map[string]string{labelKey: claim.Key, labelOwner: claim.Owner, labelRevision: revision}
	return []mount.Mount{
		{Type: mount.TypeVolume, Source: data, Target: dataDir, VolumeOptions: &mount.VolumeOptions{NoCopy: true, Labels: labels}},
		{Type: mount.TypeVolume, Target: privateDir, VolumeOptions: &mount.VolumeOptions{NoCopy: true, Labels: private}},
	}
}

// checkVolume returns an error if the volume of a container, which was not started, is not that of
// the deployment, and removes the container: the engine takes a volume of the name if it has one.
func (d *Driver) checkVolume(ctx context.Context, claim deploy.Claim, n name, volume string) error {
	found, err := d.engine.VolumeInspect(ctx, volume, client.VolumeInspectOptions{})
	if err != nil {
		return fault(ctx, "inspect volume", moved(err))
	}

	if l := found.Volume.Labels; l[labelKey] == claim.Key && l[labelOwner] == claim.Owner {
		return nil
	}

	return errors.Join(fmt.Errorf("the Docker engine has a volume %s that is not of this deployment: remove it, or copy it to another name", volume),
		d.remove(ctx, n.String()))
}

// removeVolumes removes the volumes of a deployment that have no container. Those of requests are
// the first: a deployment exists as long as it has a volume.
func (d *Driver) removeVolumes(ctx context.Context, f deployment, owner string) error {
	for _, private := range []bool{true, false} {
		for _, v := range f.volumes {
			if v.Labels[labelOwner] != owner || private != (v.Labels[labelRevision] != "") {
				continue
			}

			// The engine does not remove the volume of a container that another hub has created
			// concurrently.
			_, err := d.engine.VolumeRemove(ctx, v.Name, client.VolumeRemoveOptions{})
			if err != nil && !gone(err) {
				return fault(ctx, "remove volume", moved(err))
			}
		}
	}

	return nil
}

// sweepVolumes removes the volumes of requests, which have keys, whose container was removed
// without them.
func (d *Driver) sweepVolumes(ctx context.Context, owner string) {
	list, err := d.engine.VolumeList(ctx, client.VolumeListOptions{
		Filters: client.Filters{}.Add("label", labelOwner+"="+owner, labelRevision).Add("dangling", "true"),
	})
	if err != nil {
		return
	}

	for _, v := range list.Items {
		_, _ = d.engine.VolumeRemove(ctx, v.Name, client.VolumeRemoveOptions{}) // the next sweep repeats it
	}
}
