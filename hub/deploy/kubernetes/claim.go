package kubernetes

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/seed93082962/agenthost/hub/deploy"
)

// maxAttempts bounds how often a change is begun again because of other calls.
const maxAttempts = 10

// change calls do with the deployment while the claim is in force. The objects were read before the
// claim was, and each write of do that has an effect names the version that was read: a hub with a
// higher fence has changed all versions, so that the write fails. Without create, do is not called
// if there is no deployment.
func (d *Driver) change(ctx context.Context, claim deploy.Claim, create bool, do func(context.Context, deployment) error) error {
	if err := checkKey(claim.Key); err != nil {
		return err
	}

	ctx, cancel := d.bounded(ctx)
	defer cancel()
	err := errChanged
	for i := range maxAttempts {
		if err := pause(ctx, i); err != nil {
			return err
		}

		var f deployment
		if f, err = d.hold(ctx, claim, create); err == nil && (create || f.exists()) {
			err = do(ctx, f)
		}

		if !errors.Is(err, errChanged) {
			return err
		}
	}

	return err
}

// pause waits before an attempt.
func pause(ctx context.Context, attempt int) error {
	if attempt < 3 { // of the steps of one call
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
	if f, err = d.find(ctx, claim.Key, ""); err != nil {
		return f, err
	}

	record, err := d.objects.Resource(configMaps).Namespace(d.cfg.Namespace).Get(ctx, claimName(claim.Key), metav1.GetOptions{})
	if err != nil && !gone(err) {
		return f, fault(ctx, "read claim", err)
	}

	owner, fence := f.claim()
	inForce := false // a claim of the record, which has none at first
	if err == nil {  // otherwise there is none, or someone has deleted it
		recorded := object{ObjectMeta: metav1.ObjectMeta{Annotations: record.GetAnnotations()}}
		if key := recorded.key(); key != claim.Key {
			return f, fmt.Errorf("the namespace has a ConfigMap %s of another deployment: delete it there", record.GetName())
		}

		if inForce = recorded.owner() != ""; inForce {
			if owner == "" || recorded.owner() == owner {
				fence = max(fence, recorded.fence())
			}

			owner = recorded.owner()
		}
	} else {
		record = nil
	}

	switch {
	case owner != "" && owner != claim.Owner && f.exists():
		return f, deploy.ErrForeign
	case owner == claim.Owner && claim.Fence < fence:
		return f, &deploy.FencedError{Fence: fence}
	case record == nil && !create && !f.exists():
		return f, nil
	case record == nil:
		return f, cmp.Or(d.createRecord(ctx, claim), errChanged)
	case inForce && owner == claim.Owner && fence == claim.Fence:
		return f, d.align(ctx, f, fence)
	}

	if !inForce || owner != claim.Owner {
		if err := d.admit(ctx, claim, f); err != nil {
			return f, err
		}
	}

	if inForce && owner != claim.Owner { // its claim is replaced
		if err := d.raiseFloor(ctx, owner, fence); err != nil {
			return f, err
		}
	}

	return f, cmp.Or(d.record(ctx, claim, record), errChanged) // it is read again, with concurrent changes
}

// recordOf returns the record of a claim.
func (d *Driver) recordOf(claim deploy.Claim) *unstructured.Unstructured {
	m := d.manifest(claim, 0, "")
	delete(m.labels, labelRevision)
	m.notes[noteFence] = strconv.FormatInt(claim.Fence, 10)
	meta := fields{"name": claimName(claim.Key), "namespace": d.cfg.Namespace, "labels": m.labels, "annotations": m.notes}
	return &unstructured.Unstructured{Object: fields{"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}}
}

// createRecord creates a record without a claim. The claim of a hub that is frozen here is checked
// after it has read the record.
func (d *Driver) createRecord(ctx context.Context, claim deploy.Claim) error {
	o := d.recordOf(claim)
	o.SetAnnotations(map[string]string{noteKey: claim.Key})
	return d.create(ctx, configMaps, o)
}

// record makes a claim the one in force, in the version of the record that was read.
func (d *Driver) record(ctx context.Context, claim deploy.Claim, read *unstructured.Unstructured) error {
	return d.apply(ctx, configMaps, d.recordOf(claim), &object{ObjectMeta: metav1.ObjectMeta{UID: read.GetUID(), ResourceVersion: read.GetResourceVersion()}})
}

// align gives what a former claim may still change the fence that is in force. This changes the
// versions, so that calls with the former claim fail.
func (d *Driver) align(ctx context.Context, f deployment, fence int64) error {
	aligned := true
	one := func(of schema.GroupVersionResource, o *object) error {
		if o.fence() == fence {
			return nil
		}

		aligned = false
		return d.patch(ctx, of, o, fields{noteFence: strconv.FormatInt(fence, 10)}, nil)
	}
	for _, r := range f.revisions {
		if r.app == nil {
			continue
		}

		if err := one(deployments, &r.app.object); err != nil {
			return err
		}

		for of, o := range r.parts() {
			if of == services { // its content never differs between hubs
				continue
			}

			if err := one(of, o); err != nil {
				return err
			}
		}

		for _, p := range r.pods {
			if p.DeletionTimestamp != nil {
				if err := one(pods, &p.object); err != nil && !errors.Is(err, errChanged) { // it has ended
					return err
				}
			}
		}
	}

	if !aligned {
		return errChanged
	}

	return nil
}

// create creates an object. It fails with errChanged if there is one.
func (d *Driver) create(ctx context.Context, of schema.GroupVersionResource, o *unstructured.Unstructured) error {
	_, err := d.objects.Resource(of).Namespace(d.cfg.Namespace).Create(ctx, o, metav1.CreateOptions{FieldManager: manager})
	if !gone(err) { // of the namespace
		err = moved(err)
	}

	return fault(ctx, "create "+o.GetKind(), err)
}

// apply makes an object the wanted one. It takes the fields that others have changed. It fails with
// errChanged if the object is no longer the one that was read. A nil read applies it in any case.
func (d *Driver) apply(ctx context.Context, of schema.GroupVersionResource, o *unstructured.Unstructured, read *object) error {
	if read != nil {
		o.SetUID(read.UID)
		o.SetResourceVersion(read.ResourceVersion)
	}

	_, err := d.objects.Resource(of).Namespace(d.cfg.Namespace).Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: manager, Force: true})
	if read != nil {
		err = moved(err)
	}

	return fault(ctx, "apply "+o.GetKind(), err)
}

// patch changes annotations and other fields of an object that was read.
func (d *Driver) patch(ctx context.Context, of schema.GroupVersionResource, read *object, notes, change fields) error {
	meta := fields{"uid": string(read.UID), "resourceVersion": read.ResourceVersion, "annotations": notes}
	body := fields{"metadata": meta}
	for name, value := range change {
		if name == "metadata" {
			maps.Copy(meta, value.(fields))
			continue
		}

		body[name] = value
	}

	text, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode change: %w", err)
	}

	_, err = d.metadata.Resource(of).Namespace(d.cfg.Namespace).Patch(ctx, read.Name, types.MergePatchType, text, metav1.PatchOptions{FieldManager: manager})
	return fault(ctx, "change "+of.Resource, moved(err))
}

// remove removes an object that was read, and what belongs to it. Without grace, a pod has that of
// its spec.
func (d *Driver) remove(ctx context.Context, of schema.GroupVersionResource, read *object, grace *int64) error {
	background := metav1.DeletePropagationBackground
	err := d.metadata.Resource(of).Namespace(d.cfg.Namespace).Delete(ctx, read.Name, metav1.DeleteOptions{
		GracePeriodSeconds: grace, PropagationPolicy: &background,
		Preconditions: &metav1.Preconditions{UID: &read.UID, ResourceVersion: &read.ResourceVersion},
	})
	if gone(err) {
		return nil
	}

	return fault(ctx, "remove "+of.Resource, moved(err))
}
