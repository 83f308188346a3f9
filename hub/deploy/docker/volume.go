package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/api/types/volume"
	"github.com/moby/moby/client"

	"github.com/seed93082962/agenthost/hub/deploy"
)

// A deployment has one volume of data. It is found by its labels only: another program may have a
// volume of any name. Its name has the UID of the deployment, so that a hub that was frozen does
// not remove the volume of a later deployment of the key.
//
// Each container has a volume of its request. The engine generates its name, and removes it with
// the container. If it removes only the container, the label of the revision finds the volume.

// volumeName returns the name with which the volume of data is created.
func volumeName(ref deploy.Ref) string { return namePrefix + ref.Key + "." + ref.UID }

// volumes returns the volumes of a deployment, the first one created first.
func (d *Driver) volumes(ctx context.Context, ref deploy.Ref) ([]volume.Volume, error) {
	list, err := d.engine.VolumeList(ctx, client.VolumeListOptions{Filters: client.Filters{}.Add("label", labelKey+"="+ref.Key)})
	if err != nil {
		return nil, fault(ctx, "list volumes", err)
	}

	mine := slices.DeleteFunc(list.Items, func(v volume.Volume) bool { return refOf(v.Labels) != ref })
	slices.SortFunc(mine, func(a, b volume.Volume) int {
		return cmp.Or(cmp.Compare(a.CreatedAt, b.CreatedAt), cmp.Compare(a.Name, b.Name))
	})
	return mine, nil
}

// data returns the name of the volume of data of a deployment, or the one with which it is created.
func (f deployment) data(ref deploy.Ref) string {
	for _, v := range f.volumes {
		if v.Labels[labelRevision] == "" {
			return v.Name
		}
	}

	return volumeName(ref)
}

// mounts returns the volumes of a container.
func mounts(ref deploy.Ref, revision, data string) []mount.Mount {
	private := labelsOf(ref)
	private[labelRevision] = revision
	return []mount.Mount{
		{Type: mount.TypeVolume, Source: data, Target: dataDir, VolumeOptions: &mount.VolumeOptions{NoCopy: true, Labels: labelsOf(ref)}},
		{Type: mount.TypeVolume, Target: privateDir, VolumeOptions: &mount.VolumeOptions{NoCopy: true, Labels: private}},
	}
}

// checkVolume returns an error if the volume of a container, which was not started, is not that of
// the deployment, and removes the container: the engine takes a volume of the name if it has one.
func (d *Driver) checkVolume(ctx context.Context, ref deploy.Ref, n name, volume string) error {
	found, err := d.engine.VolumeInspect(ctx, volume, client.VolumeInspectOptions{})
	if err != nil {
		return fault(ctx, "inspect volume", moved(err))
	}

	if refOf(found.Volume.Labels) == ref {
		return nil
	}

	return errors.Join(fmt.Errorf("the Docker engine has a volume %s that is not of this deployment: remove it, or copy it to another name", volume),
		d.remove(ctx, n.String()))
}

// removeVolumes removes the volumes of a deployment that have no container. Those of requests are
// the first: a deployment exists as long as it has a volume.
func (d *Driver) removeVolumes(ctx context.Context, f deployment) error {
	for _, private := range []bool{true, false} {
		for _, v := range f.volumes {
			if private != (v.Labels[labelRevision] != "") {
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
