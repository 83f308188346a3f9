package kubernetes

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/seed93082962/agenthost/hub/deploy"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// deployment has the objects of a deployment.
type deployment struct {
	revisions []revision // by number
	data      *object    // the PersistentVolumeClaim, or nil
}

// revision has the objects of a revision.
type revision struct {
	number  int64
	app     *workload // nil if only pods remain
	secret  *object
	service *service
	policy  *object
	pods    []*pod
	evicted []*pod // records of pods that have ended
}

// parts returns the objects of a revision that end with its Deployment, except pods.
func (r revision) parts() map[schema.GroupVersionResource]*object {
	all := map[schema.GroupVersionResource]*object{}
	if r.secret != nil {
		all[secrets] = r.secret
	}

	if r.service != nil {
		all[services] = &r.service.object
	}

	if r.policy != nil {
		all[policies] = r.policy
	}

	return all
}

// orphaned reports whether someone deleted a Deployment without an object that belonged to it.
func (r revision) orphaned() bool {
	for _, o := range r.parts() {
		if len(o.OwnerReferences) == 0 {
			return true
		}
	}

	return false
}

// named reports whether an object of a revision has the name that the driver gives it.
func (o *object) named(ref deploy.Ref) bool { return o.Name == revisionName(ref, o.revision()) }

// revision returns the objects of a revision.
func (f deployment) revision(number int64) (r revision, found bool) {
	i := slices.IndexFunc(f.revisions, func(r revision) bool { return r.number == number })
	if i < 0 {
		return revision{number: number}, false
	}

	return f.revisions[i], true
}

func (f deployment) exists() bool { return len(f.revisions) > 0 || f.data != nil }

// group returns the deployment that objects belong to. An object of another name is a copy that
// someone has made, with the labels. A Secret, a Service or a NetworkPolicy that names a Deployment
// as its owner makes no revision: it ends with that Deployment.
func group(ref deploy.Ref, apps []*workload, all []*pod, secrets []*object, services []*service, policies []*object, volumes []*object) (f deployment) {
	at := func(number int64, add bool) *revision {
		i := slices.IndexFunc(f.revisions, func(r revision) bool { return r.number == number })
		if i < 0 {
			if !add {
				return new(revision)
			}

			i = len(f.revisions)
			f.revisions = append(f.revisions, revision{number: number})
		}

		return &f.revisions[i]
	}
	for _, o := range apps {
		if o.named(ref) {
			at(o.revision(), true).app = o
		}
	}

	for _, o := range all {
		switch {
		case !strings.HasPrefix(o.Name, revisionName(ref, o.revision())+"-"): // those of a ReplicaSet
		case o.active():
			r := at(o.revision(), true)
			r.pods = append(r.pods, o)
		case o.Status.Reason == "Evicted":
			r := at(o.revision(), false)
			r.evicted = append(r.evicted, o)
		}
	}

	for _, o := range secrets {
		if !o.named(ref) {
			continue
		}

		at(o.revision(), len(o.OwnerReferences) == 0).secret = o
	}

	for _, o := range services {
		if !o.named(ref) {
			continue
		}

		at(o.revision(), len(o.OwnerReferences) == 0).service = o
	}

	for _, o := range policies {
		if !o.named(ref) {
			continue
		}

		at(o.revision(), len(o.OwnerReferences) == 0).policy = o
	}

	for _, o := range volumes {
		if o.Name == commonName(ref) {
			f.data = o
		}
	}

	slices.SortFunc(f.revisions, func(a, b revision) int { return cmp.Compare(a.number, b.number) })
	for _, r := range f.revisions {
		slices.SortFunc(r.pods, func(a, b *pod) int { return cmp.Compare(a.Name, b.Name) })
	}

	return f
}

// find reads the objects of a deployment from the API server.
func (d *Driver) find(ctx context.Context, ref deploy.Ref) (deployment, error) {
	var f deployment
	selector := metav1.ListOptions{LabelSelector: labelKey + "=" + index(ref) + "," + labelOwner + "=" + digest(ref.Owner)}
	apps, err := list[workload](ctx, d, deployments, selector)
	if err != nil {
		return f, err
	}

	running, err := list[pod](ctx, d, pods, selector)
	if err != nil {
		return f, err
	}

	routes, err := list[service](ctx, d, services, selector)
	if err != nil {
		return f, err
	}

	rules, err := list[object](ctx, d, policies, selector)
	if err != nil {
		return f, err
	}

	requests, err := d.listMetadata(ctx, secrets, selector)
	if err != nil {
		return f, err
	}

	volumes, err := d.listMetadata(ctx, volumeClaims, selector)
	if err != nil {
		return f, err
	}

	return group(ref, apps, running, requests, routes, rules, volumes), nil
}

// list reads objects, which T describes.
func list[T any](ctx context.Context, d *Driver, of schema.GroupVersionResource, selector metav1.ListOptions) (all []*T, err error) {
	found, err := d.objects.Resource(of).Namespace(d.cfg.Namespace).List(ctx, selector)
	if err != nil {
		return nil, fault(ctx, "list "+of.Resource, err)
	}

	for i := range found.Items {
		one, err := decode[T](&found.Items[i])
		if err != nil {
			return nil, err
		}

		all = append(all, one)
	}

	return all, nil
}

func (d *Driver) listMetadata(ctx context.Context, of schema.GroupVersionResource, selector metav1.ListOptions) (all []*object, err error) {
	found, err := d.metadata.Resource(of).Namespace(d.cfg.Namespace).List(ctx, selector)
	if err != nil {
		return nil, fault(ctx, "list "+of.Resource, err)
	}

	for _, item := range found.Items {
		one := &object{ObjectMeta: item.ObjectMeta}
		one.strip()
		all = append(all, one)
	}

	return all, nil
}
