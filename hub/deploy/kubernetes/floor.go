package kubernetes

import (
	"context"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/seed93082962/agenthost/hub/deploy"
)

// The fences of an owner increase over all of its deployments. So one record, the floor, replaces
// the records of the claims of deleted deployments: its fence is the highest one of them. Without a
// record of its own, a deployment requires a higher fence than the floor.

// Times of the removal of records, in times of Config.Timeout.
const (
	sweepEvery = 2
	unusedFor  = 20 // a hub that has a lease and no deployment yet rarely needs another fence
)

// maxPage bounds the objects of one list.
const maxPage = 500

// floorName is the name of the ConfigMap with the floor of an owner.
func floorName(owner string) string { return "agenthost-fence-" + digest(owner) }

// floor returns the floor of an owner, and its object, or nil.
func (d *Driver) floor(ctx context.Context, owner string) (fence int64, o *object, err error) {
	found, err := d.metadata.Resource(configMaps).Namespace(d.cfg.Namespace).Get(ctx, floorName(owner), metav1.GetOptions{})
	if gone(err) {
		return 0, nil, nil
	}

	if err != nil {
		return 0, nil, fault(ctx, "read fence", err)
	}

	o = &object{ObjectMeta: found.ObjectMeta}
	return o.fence(), o, nil
}

// raiseFloor makes a fence the floor of an owner if it is higher. It fails with errChanged if
// another call has raised it.
func (d *Driver) raiseFloor(ctx context.Context, owner string, fence int64) error {
	known, read, err := d.floor(ctx, owner)
	if err != nil || fence <= known {
		return err
	}

	meta := fields{
		"name": floorName(owner), "namespace": d.cfg.Namespace,
		"labels":      fields{labelManager: manager, labelOwner: digest(owner)},
		"annotations": fields{noteOwner: owner, noteFence: strconv.FormatInt(fence, 10)},
	}
	o := &unstructured.Unstructured{Object: fields{"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}}
	if read == nil {
		return d.create(ctx, configMaps, o)
	}

	return d.apply(ctx, configMaps, o, read)
}

// admit returns an error if a claim is not above the floor, after a record without a claim was
// read. It belongs to a hub that was frozen, or the hub needs a higher fence. A hub that is frozen
// after this cannot put the claim in force if another hub has used or removed the record.
func (d *Driver) admit(ctx context.Context, claim deploy.Claim, f deployment) error {
	if f.launched() {
		return nil // someone has deleted the record; the objects have the fence
	}

	known, _, err := d.floor(ctx, claim.Owner)
	if err == nil && claim.Fence <= known {
		return &deploy.FencedError{Fence: known}
	}

	return err
}

// sweep removes the records of deployments that do not exist, and the objects of frozen hubs. It
// continues after the call, and does so rarely: there may be many.
func (d *Driver) sweep(owner string) {
	if !d.sweeping.TryLock() {
		return
	}

	if time.Since(d.sweptAt) < sweepEvery*d.cfg.Timeout {
		d.sweeping.Unlock()
		return
	}

	d.watches.Go(func() {
		defer d.sweeping.Unlock()
		ctx, cancel := context.WithTimeout(d.ctx, unusedFor*d.cfg.Timeout)
		defer cancel()
		d.sweepClaims(ctx, owner)
		d.sweptAt = time.Now()
	})
}

// sweepClaims removes the records of claims of an owner that have had no deployment for some time.
func (d *Driver) sweepClaims(ctx context.Context, owner string) {
	options := ofOwner(owner)
	options.LabelSelector += "," + labelKey
	options.Limit = maxPage
	unused := map[string]time.Time{}
	recorded := map[string]bool{}
	for {
		page, err := d.metadata.Resource(configMaps).Namespace(d.cfg.Namespace).List(ctx, options)
		if err != nil {
			return // the next sweep repeats it
		}

		for _, item := range page.Items {
			o := &object{ObjectMeta: item.ObjectMeta}
			key := o.key()
			recorded[key] = o.owner() != ""
			mine := o.owner() == owner || o.owner() == "" // one without a claim has the label
			if !mine || checkKey(key) != nil || o.Name != claimName(key) || d.cached(key).exists() {
				continue
			}

			since, known := d.unused[key]
			if !known {
				since = time.Now()
			}

			unused[key] = since
			if time.Since(since) >= unusedFor*d.cfg.Timeout {
				_ = d.removeClaim(ctx, o) // the next sweep repeats it
			}
		}

		options.Continue = page.Continue
		if options.Continue == "" {
			break
		}
	}

	d.unused = unused
	d.sweepInert(ctx, owner, recorded)
}

// removeClaim removes the record of a claim if there is no deployment. The floor replaces it first.
func (d *Driver) removeClaim(ctx context.Context, record *object) error {
	if f, err := d.find(ctx, record.key(), ""); err != nil || f.exists() {
		return err
	}

	if record.owner() != "" {
		if err := d.raiseFloor(ctx, record.owner(), record.fence()); err != nil {
			return err
		}
	}

	return d.remove(ctx, configMaps, record, nil)
}

// sweepInert removes Deployments that were never started and have no record with a claim: a hub
// that was frozen has created them. A hub that needs one changes its version first.
func (d *Driver) sweepInert(ctx context.Context, owner string, recorded map[string]bool) {
	floor, _, err := d.floor(ctx, owner)
	if err != nil {
		return
	}

	for _, o := range d.cache.kinds[deployments].GetStore().List() {
		app := o.(*workload)
		key := app.key()
		old := time.Since(app.CreationTimestamp.Time) >= unusedFor*d.cfg.Timeout
		if old && app.owner() == owner && app.named(key) && app.fence() <= floor && !recorded[key] && !d.cached(key).launched() {
			_ = d.remove(ctx, deployments, &app.object, nil) // the next sweep repeats it
		}
	}
}

// launched reports whether a revision was started: an object that a hub creates first has no
// effect.
func (f deployment) launched() bool {
	return slices.ContainsFunc(f.revisions, func(r revision) bool {
		return len(r.pods) > 0 || r.app != nil && (r.app.Spec.Replicas > 0 || !r.app.stopped().IsZero())
	})
}
