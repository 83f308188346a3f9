package docker

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/volume"
	"github.com/moby/moby/client"

	"github.com/seed93082962/agenthost/hub/deploy"
)

// Labels of containers, networks and volumes. They never change.
const (
	labelKey      = "agenthost.key"
	labelOwner    = "agenthost.owner"
	labelRevision = "agenthost.revision"
	labelTenant   = "agenthost.tenant"
	labelNetwork  = "agenthost.network"
	labelSpec     = "agenthost.spec"
)

// deployment has the containers and volumes of a key.
type deployment struct {
	claims   []name // the last one is in force
	runtimes []runtimeContainer
	volumes  []volume.Volume // of all owners
}

// runtimeContainer is the container of a revision.
type runtimeContainer struct {
	name
	id     string
	state  container.ContainerState
	labels map[string]string
	shown  string // what changes when it is started again
}

func (r runtimeContainer) alive() bool {
	return slices.Contains([]container.ContainerState{container.StateRunning, container.StatePaused, container.StateRestarting}, r.state)
}

// runtime returns the container of a revision.
func (f deployment) runtime(revision int64) (r runtimeContainer, found bool) {
	i := slices.IndexFunc(f.runtimes, func(r runtimeContainer) bool { return r.Revision == revision })
	if i < 0 {
		return r, false
	}

	return f.runtimes[i], true
}

// claim returns the owner and the highest fence of the deployment. Someone may have deleted the
// record: then the containers and the volumes have them.
func (f deployment) claim() (owner string, fence int64, known bool) {
	if n := len(f.claims); n > 0 && f.claims[n-1] != firstClaim(f.claims[n-1].Key) {
		owner, fence, known = f.claims[n-1].Owner, f.claims[n-1].Fence, true
	}

	for _, r := range f.runtimes {
		if !known {
			owner, known = r.labels[labelOwner], true
		}

		if r.labels[labelOwner] == owner {
			fence = max(fence, r.Fence)
		}
	}

	for _, v := range f.volumes {
		if !known {
			owner, known = v.Labels[labelOwner], true
		}

		if v.Labels[labelOwner] == owner {
			fence = max(fence, volumeFence(v))
		}
	}

	return owner, fence, known
}

// exists reports whether there is anything of a deployment but the record of its claim.
func (f deployment) exists() bool { return len(f.runtimes)+len(f.volumes) > 0 }

// foreign reports whether another owner has a container or a volume of the deployment.
func (f deployment) foreign(owner string) bool {
	return slices.ContainsFunc(f.runtimes, func(r runtimeContainer) bool { return r.labels[labelOwner] != owner }) ||
		slices.ContainsFunc(f.volumes, func(v volume.Volume) bool { return v.Labels[labelOwner] != owner })
}

// find reads the containers of a deployment.
func (d *Driver) find(ctx context.Context, key string) (f deployment, err error) {
	list, err := d.engine.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: client.Filters{}.Add("label", labelKey+"="+key)})
	if err != nil {
		return f, fault(ctx, "list containers", err)
	}

	return newDeployment(key, list.Items), nil
}

// newDeployment sorts the containers of a deployment. Of several containers of a revision, which a
// killed hub may have left, only that with the highest fence can have been started.
func newDeployment(key string, list []container.Summary) (f deployment) {
	for _, c := range list {
		if len(c.Names) == 0 {
			continue
		}

		n, ok := parseName(c.Names[0])
		switch {
		case !ok || n.Key != key || c.State == container.StateRemoving:
		case n.Claim:
			f.claims = append(f.claims, n)
		default:
			r := runtimeContainer{name: n, id: c.ID, state: c.State, labels: c.Labels}
			r.shown = fmt.Sprint(c.Names, c.State, c.Status, c.Ports)
			f.runtimes = append(f.runtimes, r)
		}
	}

	slices.SortFunc(f.claims, func(a, b name) int { return cmp.Compare(a.Fence, b.Fence) })
	slices.SortFunc(f.runtimes, func(a, b runtimeContainer) int {
		return cmp.Or(cmp.Compare(a.Revision, b.Revision), -cmp.Compare(a.Fence, b.Fence))
	})
	return f
}

// maxAttempts bounds how often a change is begun again because of other calls.
const maxAttempts = 10

// change calls do with the deployment while the claim is in force. All calls of do name containers
// with the fence of the claim: they fail as soon as a higher one is in force. Without create, do is
// not called if there is no deployment.
func (d *Driver) change(ctx context.Context, claim deploy.Claim, create bool, do func(context.Context, deployment) error) error {
	if err := checkKey(claim.Key); err != nil {
		return err
	}

	ctx, cancel := d.bounded(ctx)
	defer cancel()
	defer d.touch(claim.Key)
	err := errChanged
	for i := range maxAttempts {
		if err := pause(ctx, i); err != nil {
			return err
		}

		var f deployment
		if f, err = d.hold(ctx, claim, create); err == nil && (create || len(f.claims) > 0) {
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

// hold puts a claim in force, and returns the deployment.
func (d *Driver) hold(ctx context.Context, claim deploy.Claim, create bool) (f deployment, err error) {
	if f, err = d.find(ctx, claim.Key); err != nil {
		return f, err
	}

	if f.volumes, err = d.volumes(ctx, claim.Key); err != nil {
		return f, err
	}

	owner, fence, known := f.claim()
	if known && owner != claim.Owner && f.foreign(claim.Owner) {
		return f, deploy.ErrForeign
	}

	if known && owner == claim.Owner && claim.Fence < fence {
		return f, &deploy.FencedError{Fence: fence}
	}

	mine := name{Key: claim.Key, Claim: true, Owner: claim.Owner, Fence: claim.Fence}
	switch n := len(f.claims); {
	case n == 0 && !create && !f.exists():
		return f, nil
	case n == 0:
		return f, cmp.Or(moved(d.createClaim(ctx, claim.Key)), errChanged)
	case n > 1:
		return f, cmp.Or(d.remove(ctx, f.claims[0].String()), errChanged)
	case f.claims[0] != mine:
		_, err := d.engine.ContainerRename(ctx, f.claims[0].String(), client.ContainerRenameOptions{NewName: mine.String()})
		return f, cmp.Or(fault(ctx, "record claim", moved(err)), errChanged) // it is read again, with concurrent changes
	}

	return f, d.align(ctx, f, claim.Fence)
}

// align gives the containers of a deployment the fence that is in force, so that calls with a
// former one fail.
func (d *Driver) align(ctx context.Context, f deployment, fence int64) error {
	for i, r := range f.runtimes {
		if i > 0 && f.runtimes[i-1].Revision == r.Revision {
			return cmp.Or(d.remove(ctx, r.name.String()), errChanged)
		}

		if r.Fence != fence {
			next := r.name
			next.Fence = fence
			if err := d.rename(ctx, r.name, next); err != nil {
				return err
			}

			f.runtimes[i].name = next
		}
	}

	return nil
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

// claimImage is an image without files, of which records of claims are made.
const claimImage = "agenthost-claim:1"

// createClaim creates the first record of a claim.
func (d *Driver) createClaim(ctx context.Context, key string) error {
	options := client.ContainerCreateOptions{
		Name:       firstClaim(key).String(),
		Config:     &container.Config{Image: claimImage, Cmd: []string{"-"}, Labels: map[string]string{labelKey: key}},
		HostConfig: &container.HostConfig{NetworkMode: "none"},
	}
	_, err := d.engine.ContainerCreate(ctx, options)
	if gone(err) {
		if err := d.importClaimImage(ctx); err != nil {
			return fault(ctx, "import image", err)
		}

		_, err = d.engine.ContainerCreate(ctx, options)
	}

	if err := moved(err); err != nil {
		return fault(ctx, "create record of claim", err)
	}

	return nil
}

func (d *Driver) importClaimImage(ctx context.Context) error {
	var empty bytes.Buffer
	if err := tar.NewWriter(&empty).Close(); err != nil {
		return fmt.Errorf("write archive: %w", err)
	}

	progress, err := d.engine.ImageImport(ctx, client.ImageImportSource{Source: &empty, SourceName: "-"}, claimImage, client.ImageImportOptions{})
	if err != nil {
		return err
	}

	return readAll(progress)
}
