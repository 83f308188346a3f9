package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/volume"
	"github.com/moby/moby/client"

	"github.com/seed93082962/agenthost/hub/deploy"
)

// Labels of containers, networks and volumes. They never change.
const (
	labelKey      = "agenthost.key"
	labelUID      = "agenthost.uid"
	labelOwner    = "agenthost.owner"
	labelRevision = "agenthost.revision"
	labelTenant   = "agenthost.tenant"
	labelNetwork  = "agenthost.network"
	labelSpec     = "agenthost.spec"
)

// labelsOf returns the labels by which the objects of a deployment are found. Those of a former
// version have no UID.
func labelsOf(ref deploy.Ref) map[string]string {
	all := map[string]string{labelKey: ref.Key, labelOwner: ref.Owner}
	if ref.UID != "" {
		all[labelUID] = ref.UID
	}

	return all
}

// refOf returns the deployment of an object with labels.
func refOf(labels map[string]string) deploy.Ref {
	return deploy.Ref{Key: labels[labelKey], UID: labels[labelUID], Owner: labels[labelOwner]}
}

// deployment has the containers and volumes of a deployment.
type deployment struct {
	runtimes []runtimeContainer
	volumes  []volume.Volume
}

// runtimeContainer is the container of a revision.
type runtimeContainer struct {
	name
	id       string
	revision int64
	state    container.ContainerState
	labels   map[string]string
	shown    string // what changes when it is started again
}

func (r runtimeContainer) alive() bool {
	return slices.Contains([]container.ContainerState{container.StateRunning, container.StatePaused, container.StateRestarting}, r.state)
}

// runtime returns the container of a revision.
func (f deployment) runtime(revision int64) (runtimeContainer, bool) {
	i := slices.IndexFunc(f.runtimes, func(r runtimeContainer) bool { return r.revision == revision })
	if i < 0 {
		return runtimeContainer{}, false
	}

	return f.runtimes[i], true
}

// exists reports whether there is anything of a deployment.
func (f deployment) exists() bool { return len(f.runtimes)+len(f.volumes) > 0 }

// find reads the containers of a deployment.
func (d *Driver) find(ctx context.Context, ref deploy.Ref) (deployment, error) {
	list, err := d.engine.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: client.Filters{}.Add("label", labelKey+"="+ref.Key)})
	if err != nil {
		return deployment{}, fault(ctx, "list containers", err)
	}

	return newDeployment(ref, list.Items), nil
}

// newDeployment returns the containers of a deployment by revision.
func newDeployment(ref deploy.Ref, list []container.Summary) deployment {
	var f deployment
	for _, c := range list {
		revision, err := strconv.ParseInt(c.Labels[labelRevision], 10, 64)
		if err != nil || len(c.Names) == 0 || refOf(c.Labels) != ref || c.State == container.StateRemoving {
			continue
		}

		f.runtimes = append(f.runtimes, runtimeContainer{
			name: parseName(c.Names[0]), id: c.ID, revision: revision, state: c.State, labels: c.Labels,
			shown: fmt.Sprint(c.Names, c.State, c.Status, c.Ports),
		})
	}

	slices.SortFunc(f.runtimes, func(a, b runtimeContainer) int { return cmp.Compare(a.revision, b.revision) })
	return f
}

// maxAttempts bounds how often a change is begun again because of other calls.
const maxAttempts = 10

// change calls do with the deployment, and again if other calls have changed it.
func (d *Driver) change(ctx context.Context, ref deploy.Ref, do func(context.Context, deployment) error) error {
	if err := checkRef(ref); err != nil {
		return err
	}

	ctx, cancel := d.bounded(ctx)
	defer cancel()
	defer d.touch(ref)
	err := errChanged
	for i := range maxAttempts {
		if err := pause(ctx, i); err != nil {
			return err
		}

		var f deployment
		if f, err = d.find(ctx, ref); err == nil {
			f.volumes, err = d.volumes(ctx, ref)
		}

		if err == nil {
			err = do(ctx, f)
		}

		if !errors.Is(err, errChanged) {
			return err
		}
	}

	return err
}

// pause waits before an attempt, for what another call creates: the engine reserves its name first.
func pause(ctx context.Context, attempt int) error {
	if attempt == 0 {
		return nil
	}

	timer := time.NewTimer(min(10*time.Millisecond<<attempt, time.Second))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return fault(ctx, "change deployment", ctx.Err())
	}
}

func (d *Driver) rename(ctx context.Context, from, to name) error {
	_, err := d.engine.ContainerRename(ctx, from.String(), client.ContainerRenameOptions{NewName: to.String()})
	return fault(ctx, "change state of container", moved(err))
}

// remove removes a container with its own volumes. It has no effect if there is none.
func (d *Driver) remove(ctx context.Context, id string) error {
	_, err := d.engine.ContainerRemove(ctx, id, client.ContainerRemoveOptions{RemoveVolumes: true, Force: true})
	if gone(err) {
		return nil
	}

	return fault(ctx, "remove container", moved(err))
}
