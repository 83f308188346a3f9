package kubernetes

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/seed93082962/agenthost/hub/deploy"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	informers "k8s.io/client-go/tools/cache"
)

// cache has the objects of the deployments in the namespace. Watches update it: to observe a
// deployment needs no call.
type cache struct {
	mirrors map[schema.GroupVersionResource]*mirror
	owner   string // of the deployments, or "" for all
}

// mirror has the objects of one kind, as the API server has them.
type mirror struct {
	informers.SharedIndexInformer

	failed atomic.Pointer[error] // of the last call; nil if it succeeded
}

// byKey is the index of objects by the label of their deployment, and of events by the UID of their
// pod. byName is that by the key of their deployment.
const (
	byKey  = "key"
	byName = "name"
)

func (c *cache) init(d *Driver) {
	c.mirrors = map[schema.GroupVersionResource]*mirror{}
	for _, of := range []schema.GroupVersionResource{deployments, pods, services, policies, secrets, volumeClaims, events} {
		c.mirrors[of] = d.newMirror(of)
	}
}

func (d *Driver) newMirror(of schema.GroupVersionResource) *mirror {
	m := &mirror{}
	full := d.objects.Resource(of).Namespace(d.cfg.Namespace)
	part := d.metadata.Resource(of).Namespace(d.cfg.Namespace)
	onlyMetadata := of == secrets || of == volumeClaims
	ours := func(o metav1.ListOptions) metav1.ListOptions {
		o.LabelSelector = labelManager + "=" + manager + "," + labelKey
		if d.cache.owner != "" {
			o.LabelSelector += "," + labelOwner + "=" + digest(d.cache.owner)
		}

		if of == events { // they have no labels
			o.LabelSelector, o.FieldSelector = "", "involvedObject.kind=Pod,type=Warning"
		}

		return o
	}
	var example runtime.Object = &unstructured.Unstructured{}
	if onlyMetadata {
		example = &metav1.PartialObjectMetadata{}
	}

	source := &informers.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (list runtime.Object, err error) {
			if onlyMetadata {
				list, err = part.List(ctx, ours(o))
			} else {
				list, err = full.List(ctx, ours(o))
			}

			return list, m.note(err)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (w watch.Interface, err error) {
			if onlyMetadata {
				w, err = part.Watch(ctx, ours(o))
			} else {
				w, err = full.Watch(ctx, ours(o))
			}

			if o.SendInitialEvents != nil && apierrors.IsInvalid(err) { // an older server: a list follows
				return w, err
			}

			return w, m.note(err)
		},
	}
	m.SharedIndexInformer = informers.NewSharedIndexInformer(source, example, 0, informers.Indexers{
		byKey: func(o any) ([]string, error) {
			if e, ok := o.(*event); ok {
				return []string{e.About.UID}, nil
			}

			return []string{o.(metav1.Object).GetLabels()[labelKey]}, nil
		},
		byName: func(o any) ([]string, error) { return []string{o.(metav1.Object).GetAnnotations()[noteKey]}, nil },
	})
	_ = m.SetWatchErrorHandlerWithContext(func(context.Context, *informers.Reflector, error) {}) // note has recorded it
	_ = m.SetTransform(func(o any) (any, error) { return convert(of, o) })                       // both fail only after a start
	return m
}

// Own limits the watches to the deployments of an owner. It must be called before other methods.
func (d *Driver) Own(owner string) { d.cache.owner = owner }

// note records whether the API server responds.
func (m *mirror) note(err error) error {
	if err == nil {
		m.failed.Store(nil)
		return nil
	}

	m.failed.Store(&err)
	return err
}

// convert returns the cached form of an object.
func convert(of schema.GroupVersionResource, o any) (any, error) {
	switch o := o.(type) {
	case *metav1.PartialObjectMetadata:
		one := &object{ObjectMeta: o.ObjectMeta}
		one.strip()
		return one, nil
	case *unstructured.Unstructured:
		switch of {
		case deployments:
			return decode[workload](o)
		case pods:
			return decode[pod](o)
		case services:
			return decode[service](o)
		case events:
			e, err := decode[event](o)
			if err == nil {
				e.Message = short(strings.Clone(e.Message))
			}

			return e, err
		}

		return decode[object](o)
	}

	return o, nil // it was converted
}

// current returns when the cache has all objects, or fails if the API server does not respond.
func (d *Driver) current(ctx context.Context) error {
	d.start.Do(func() {
		for _, m := range d.cache.mirrors {
			d.watches.Go(func() { m.RunWithContext(d.ctx) })
		}
	})
	for _, m := range d.cache.mirrors {
		for !m.HasSynced() {
			if failed := m.failed.Load(); failed != nil {
				return fault(ctx, "watch objects", *failed)
			}

			select {
			case <-time.After(10 * time.Millisecond):
			case <-ctx.Done():
				return fault(ctx, "watch objects", errTimeout)
			case <-d.ctx.Done():
				return fault(ctx, "watch objects", errClosed)
			}
		}

		if failed := m.failed.Load(); failed != nil {
			return fault(ctx, "watch objects", *failed)
		}
	}

	return nil
}

var errClosed = errors.New("the driver was closed")

// cached returns the objects of a deployment.
func (d *Driver) cached(ref deploy.Ref) deployment {
	label := index(ref)
	all := of[pod](d, pods, label)
	for i, p := range all {
		warnings := of[event](d, events, string(p.UID))
		if len(warnings) > 0 {
			warned := *p // the cached one does not change
			warned.Warning = slices.MaxFunc(warnings, func(a, b *event) int { return a.Last.Compare(b.Last.Time) })
			all[i] = &warned
		}
	}

	return group(
		ref, of[workload](d, deployments, label), all, of[object](d, secrets, label),
		of[service](d, services, label), of[object](d, policies, label), of[object](d, volumeClaims, label),
	)
}

// refs returns the deployments of an owner with a key, of which one is not deleted.
func (d *Driver) refs(owner, key string) []deploy.Ref {
	var all []deploy.Ref
	found, _ := d.cache.mirrors[deployments].GetIndexer().ByIndex(byName, key) // the index exists
	for _, o := range found {
		if ref := o.(*workload).ref(); ref.Owner == owner && !slices.Contains(all, ref) {
			all = append(all, ref)
		}
	}

	return all
}

// of returns the cached objects of a kind with a key.
func of[T any](d *Driver, kind schema.GroupVersionResource, index string) (all []*T) {
	found, _ := d.cache.mirrors[kind].GetIndexer().ByIndex(byKey, index) // the index exists
	for _, o := range found {
		all = append(all, o.(*T))
	}

	return all
}

// List returns the deployments of an owner.
func (d *Driver) List(ctx context.Context, owner string) ([]deploy.Ref, error) {
	ctx, cancel := d.bounded(ctx)
	defer cancel()
	if err := d.current(ctx); err != nil {
		return nil, err
	}

	seen := map[deploy.Ref]bool{}
	for _, kind := range []schema.GroupVersionResource{deployments, volumeClaims} {
		for _, o := range d.cache.mirrors[kind].GetStore().List() {
			o := o.(interface{ base() *object }).base()
			ref := o.ref()
			if ref.Owner == owner && checkRef(ref) == nil && (o.named(ref) || o.Name == commonName(ref)) {
				seen[ref] = true
			}
		}
	}

	d.removeRoutes(ctx, owner)
	return slices.Collect(maps.Keys(seen)), nil
}
