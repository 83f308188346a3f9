package kubernetes

import (
	"context"
	"slices"
	"time"

	"github.com/seed93082962/agenthost/hub/deploy"
)

// Stop requests the pods of a runtime to end, and kills them after the patience and a few seconds.
func (d *Driver) Stop(ctx context.Context, ref deploy.Ref, number int64, patience time.Duration) error {
	return d.change(ctx, ref, func(ctx context.Context, f deployment) error {
		r, _ := f.revision(number)
		return d.terminate(ctx, ref, r, patience)
	})
}

// Discard stops the runtime of a revision, and then removes its Deployment. The cluster removes
// what belongs to that.
func (d *Driver) Discard(ctx context.Context, ref deploy.Ref, number int64) error {
	return d.change(ctx, ref, func(ctx context.Context, f deployment) error {
		r, _ := f.revision(number)
		return d.discard(ctx, ref, r)
	})
}

func (d *Driver) discard(ctx context.Context, ref deploy.Ref, r revision) error {
	d.repairs.forget(revisionName(ref, r.number))
	switch {
	case r.app == nil && r.orphaned():
		return d.adopt(ctx, ref, r)
	case len(r.pods) > 0 || r.app == nil:
		return d.terminate(ctx, ref, r, 0)
	}

	if err := d.own(ctx, r); err != nil {
		return err
	}

	return d.remove(ctx, deployments, &r.app.object, nil)
}

// Delete stops all runtimes, and then removes their Deployments and the volume.
func (d *Driver) Delete(ctx context.Context, ref deploy.Ref) error {
	return d.change(ctx, ref, func(ctx context.Context, f deployment) error {
		for _, r := range f.revisions {
			if err := d.discard(ctx, ref, r); err != nil {
				return err
			}
		}

		if len(f.revisions) > 0 || f.data == nil || f.data.DeletionTimestamp != nil {
			return nil
		}

		return d.remove(ctx, volumeClaims, f.data, nil)
	})
}

// terminate makes one step to the end of a runtime. The pods have the run limit to drain. When the
// patience is over, they have a few seconds.
func (d *Driver) terminate(ctx context.Context, ref deploy.Ref, r revision, patience time.Duration) error {
	switch {
	case r.app == nil && len(r.pods) == 0:
		return nil
	case r.app == nil && slices.ContainsFunc(r.pods, func(p *pod) bool { return p.DeletionTimestamp == nil }):
		return d.adopt(ctx, ref, r)
	}

	if r.app != nil && r.app.stopped().IsZero() {
		now := time.Now().UTC().Format(time.RFC3339Nano)
		if err := d.patch(ctx, deployments, &r.app.object, fields{noteStopped: now}, fields{"spec": fields{"replicas": 0}}); err != nil {
			return err
		}

		return d.publish(ctx, r)
	}

	if err := d.publish(ctx, r); err != nil {
		return err
	}

	began := time.Time{}
	if r.app != nil {
		began = r.app.stopped()
	}

	passed := time.Since(began) // a time in the future was stored before the clock was set back
	if passed >= 0 && passed < max(patience, d.cfg.Grace*3/4) {
		return nil
	}

	grace := seconds(d.cfg.Grace / 4)
	for _, p := range r.pods {
		if p.DeletionGracePeriodSeconds != nil && *p.DeletionGracePeriodSeconds <= grace {
			continue
		}

		if err := d.remove(ctx, pods, &p.object, &grace); err != nil {
			return err
		}
	}

	return nil
}

// adopt creates the Deployment of what remained when someone deleted the former one without its
// objects. It takes over their ReplicaSet, which would replace each pod that ends, and scales it
// to 0.
func (d *Driver) adopt(ctx context.Context, ref deploy.Ref, r revision) error {
	now := time.Now()
	o, err := d.manifest(ref, r.number, "").deployment(0, deploy.Request{}, now)
	if err != nil {
		return err
	}

	notes := o.GetAnnotations()
	notes[noteStopped] = now.UTC().Format(time.RFC3339Nano)
	o.SetAnnotations(notes)
	if err := d.create(ctx, deployments, o); err != nil {
		return err
	}

	return errChanged
}

// own makes the objects of a revision end with its Deployment.
func (d *Driver) own(ctx context.Context, r revision) error {
	owner := fields{"apiVersion": "apps/v1", "kind": "Deployment", "name": r.app.Name, "uid": string(r.app.UID)}
	for of, o := range r.parts() {
		if len(o.OwnerReferences) > 0 {
			continue // one of a former Deployment is removed by the cluster
		}

		if err := d.patch(ctx, of, o, fields{}, fields{"metadata": fields{"ownerReferences": []any{owner}}}); err != nil {
			return err
		}
	}

	return nil
}

// publish lets the Service lead to pods that drain. They are not ready, and have callers that
// cancel their runs.
func (d *Driver) publish(ctx context.Context, r revision) error {
	if r.service == nil || r.service.Spec.PublishNotReady || len(r.pods) == 0 {
		return nil
	}

	return d.patch(ctx, services, &r.service.object, fields{}, fields{"spec": fields{"publishNotReadyAddresses": true}})
}
