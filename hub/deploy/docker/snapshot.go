package docker

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/seed93082962/agenthost/hub/deploy"
)

// A snapshot of the engine is used for maxAge at most, and so that lists take a tenth of the time.
const (
	maxAge   = 500 * time.Millisecond
	ageRatio = 10
)

// snapshots has the last list of all containers of the driver. A hub observes each deployment every
// second: the engine is not called for each.
type snapshots struct {
	listing sync.Mutex // held while a list is read

	mu      sync.Mutex // guards the fields below
	last    *snapshot
	next    *snapshot                // that has not begun
	changed map[deploy.Ref]time.Time // when this driver has changed a deployment
	seen    map[string]sighting      // running containers, by id
}

// snapshot is a list of containers, by the key of their deployment.
type snapshot struct {
	done  chan struct{} // closed when the fields below are complete
	began time.Time
	took  time.Duration
	items map[string][]container.Summary
	err   error
}

// sighting is a runtime as the engine described it while it listed the container as shown.
type sighting struct {
	shown   string
	runtime deploy.Runtime
}

// recent returns the containers of a deployment. What this driver has changed is visible, and what
// others have changed after maxAge.
func (d *Driver) recent(ctx context.Context, ref deploy.Ref) (deployment, error) {
	s := d.snapshot(ref)
	select {
	case <-s.done:
	case <-ctx.Done():
		return deployment{}, fault(ctx, "list containers", ctx.Err())
	}

	return newDeployment(ref, s.items[ref.Key]), s.err
}

// snapshot returns the last list if it is recent, and otherwise the next one, for which all callers
// wait together.
func (d *Driver) snapshot(ref deploy.Ref) *snapshot {
	all := &d.snapshots
	all.mu.Lock()
	defer all.mu.Unlock()
	if s := all.last; s != nil && s.err == nil && time.Since(s.began) < min(ageRatio*s.took, maxAge) && s.began.After(all.changed[ref]) {
		return s
	}

	if all.next == nil {
		s := &snapshot{done: make(chan struct{})}
		all.next = s
		d.running.Go(func() { d.list(s) })
	}

	return all.next
}

// list reads a snapshot when the one before is complete.
func (d *Driver) list(s *snapshot) {
	defer close(s.done)
	all := &d.snapshots
	all.listing.Lock()
	defer all.listing.Unlock()
	all.mu.Lock()
	all.next, s.began = nil, time.Now()
	all.mu.Unlock()
	ctx, cancel := d.bounded(d.ctx)
	defer cancel()
	list, err := d.engine.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: client.Filters{}.Add("label", labelKey)})
	s.err = fault(ctx, "list containers", err)
	s.items = map[string][]container.Summary{}
	ids := map[string]bool{}
	for _, c := range list.Items {
		key := c.Labels[labelKey]
		s.items[key] = append(s.items[key], c)
		ids[c.ID] = true
	}

	all.mu.Lock()
	defer all.mu.Unlock()
	all.last, s.took = s, time.Since(s.began)
	maps.DeleteFunc(all.changed, func(_ deploy.Ref, at time.Time) bool { return at.Before(s.began) })
	maps.DeleteFunc(all.seen, func(id string, _ sighting) bool { return !ids[id] })
}

// touch makes a change of a deployment visible to the next call of Observe.
func (d *Driver) touch(ref deploy.Ref) {
	d.snapshots.mu.Lock()
	defer d.snapshots.mu.Unlock()
	d.snapshots.changed[ref] = time.Now()
}

// sight returns what is known of a container that the engine lists as shown.
func (d *Driver) sight(id, shown string) (deploy.Runtime, bool) {
	d.snapshots.mu.Lock()
	defer d.snapshots.mu.Unlock()
	s := d.snapshots.seen[id]
	return s.runtime, s.shown == shown
}

func (d *Driver) remember(id string, s sighting) {
	d.snapshots.mu.Lock()
	defer d.snapshots.mu.Unlock()
	d.snapshots.seen[id] = s
}
