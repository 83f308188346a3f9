package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/seed93082962/agenthost/hub/deploy"
)

// maxAttempts bounds how often a change is begun again because of other calls.
const maxAttempts = 10

// change calls do with the deployment, and again if other calls have changed it: writes of do name
// the version that was read.
func (d *Driver) change(ctx context.Context, ref deploy.Ref, do func(context.Context, deployment) error) error {
	if err := checkRef(ref); err != nil {
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
		if f, err = d.find(ctx, ref); err == nil {
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
