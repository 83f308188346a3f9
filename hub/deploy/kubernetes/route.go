package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/seed93082962/agenthost/hub/deploy"
)

var httpRoutes = schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1", Resource: "httproutes"}

// gateway is a [deploy.Gateway] with an HTTPRoute of the Gateway API for each deployment. The
// HTTPRoute is in the namespace of the runtimes and leads to the Service of the serving revision,
// whose Deployment owns it.
type gateway struct {
	d      *Driver
	parent fields
}

var _ deploy.Gateway = (*gateway)(nil)

// Gateway returns a Gateway for the deployments of the driver, which removes HTTPRoutes that it
// finds otherwise. It must be called before List. The parent of the routes is the Gateway name of
// the cluster; listener is the sectionName of one of its listeners, or "" for all.
func (d *Driver) Gateway(namespace, name, listener string) (deploy.Gateway, error) {
	if namespace == "" || name == "" {
		return nil, errors.New("make gateway of Kubernetes: the namespace and the name are required")
	}

	d.unrouted.Lock()
	d.routed = true
	d.unrouted.Unlock()
	parent := fields{"group": httpRoutes.Group, "kind": "Gateway", "namespace": namespace, "name": name}
	if listener != "" {
		parent["sectionName"] = listener
	}

	return &gateway{d: d, parent: parent}, nil
}

// Put implements deploy.Gateway. A route that the Gateway of the cluster does not accept is an
// error.
func (g *gateway) Put(ctx context.Context, owner string, r deploy.Route) error {
	ctx, cancel := g.d.bounded(ctx)
	defer cancel()
	err := errChanged
	for i := 0; i < maxAttempts && errors.Is(err, errChanged); i++ {
		if err := pause(ctx, i); err != nil {
			return err
		}

		err = g.put(ctx, owner, r)
	}

	return err
}

func (g *gateway) put(ctx context.Context, owner string, r deploy.Route) error {
	if err := g.d.current(ctx); err != nil {
		return err
	}

	have, err := g.d.readRoute(ctx, r.Key)
	if err != nil {
		return err
	}

	if have != nil && have.GetAnnotations()[noteOwner] != owner {
		return deploy.ErrForeignRoute
	}

	want, err := g.object(owner, r)
	switch {
	case err != nil:
		return err
	case want == nil:
		return errors.New("the runtime has no Service yet")
	case have == nil:
		return g.d.apply(ctx, httpRoutes, want, nil)
	case same(have, want):
		return rejected(have)
	}

	return g.d.apply(ctx, httpRoutes, want, &object{ObjectMeta: metav1.ObjectMeta{UID: have.GetUID(), ResourceVersion: have.GetResourceVersion()}})
}

// Remove implements deploy.Gateway.
func (g *gateway) Remove(ctx context.Context, owner, key string) error {
	ctx, cancel := g.d.bounded(ctx)
	defer cancel()
	have, err := g.d.readRoute(ctx, key)
	if err != nil || have == nil || have.GetAnnotations()[noteOwner] != owner {
		return err
	}

	return g.d.removeRoute(ctx, have.GetName(), have)
}

// Routes implements deploy.Gateway.
func (g *gateway) Routes(ctx context.Context, owner string) (map[string]deploy.Route, error) {
	ctx, cancel := g.d.bounded(ctx)
	defer cancel()
	if err := g.d.current(ctx); err != nil {
		return nil, err
	}

	found, err := g.d.objects.Resource(httpRoutes).Namespace(g.d.cfg.Namespace).List(ctx, ofOwner(owner))
	if err != nil {
		return nil, fault(ctx, "list HTTPRoutes", err)
	}

	all := make(map[string]deploy.Route, len(found.Items))
	for i := range found.Items {
		have := &found.Items[i]
		notes := have.GetAnnotations()
		if key := notes[noteKey]; notes[noteOwner] == owner && keyPattern.MatchString(key) && have.GetName() == routeName(key) {
			all[key] = g.route(owner, key, have)
		}
	}

	return all, nil
}

// route returns the route of an HTTPRoute, which has only a key if Put has something to do.
func (g *gateway) route(owner, key string, have *unstructured.Unstructured) deploy.Route {
	var r deploy.Route
	if err := json.Unmarshal([]byte(have.GetAnnotations()[noteRoute]), &r); err != nil || r.Key != key {
		return deploy.Route{Key: key}
	}

	if want, err := g.object(owner, r); err != nil || want == nil || !same(have, want) || rejected(have) != nil {
		return deploy.Route{Key: key}
	}

	return r
}

// object returns the HTTPRoute of a route, or nil if no revision has its target.
func (g *gateway) object(owner string, r deploy.Route) (*unstructured.Unstructured, error) {
	var to *revision
	for _, ref := range g.d.refs(owner, r.Key) {
		for _, one := range g.d.cached(ref).revisions {
			if one.app != nil && one.service != nil && g.d.address(one) == r.Target {
				to = &one
			}
		}
	}

	if to == nil {
		return nil, nil
	}

	text, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode route: %w", err)
	}

	m := g.d.manifest(to.app.ref(), to.number, string(to.app.UID))
	m.notes[noteRoute] = string(text)
	spec := fields{
		"parentRefs": []any{g.parent},
		"rules": []any{fields{
			"matches":     []any{fields{"path": fields{"type": "PathPrefix", "value": r.Path}}},
			"filters":     []any{fields{"type": "URLRewrite", "urlRewrite": fields{"path": fields{"type": "ReplacePrefixMatch", "replacePrefixMatch": "/"}}}},
			"backendRefs": []any{fields{"group": "", "kind": "Service", "name": m.name, "port": int64(listenPort), "weight": int64(1)}},
			// These bound a whole response, and not its silence as the timeout of a Route. 0s is none.
			"timeouts": fields{"request": "0s", "backendRequest": "0s"},
		}},
	}
	if r.Host != "" {
		spec["hostnames"] = []any{r.Host}
	}

	return &unstructured.Unstructured{Object: fields{
		"apiVersion": httpRoutes.GroupVersion().String(), "kind": "HTTPRoute",
		"metadata": fields{
			"name": routeName(r.Key), "namespace": g.d.cfg.Namespace, "labels": m.labels, "annotations": m.notes, "ownerReferences": []any{m.owner},
		},
		"spec": spec,
	}}, nil
}

// same reports whether an HTTPRoute of the cluster has all of a wanted one.
func same(have, want *unstructured.Unstructured) bool {
	h, w := have.GetOwnerReferences(), want.GetOwnerReferences()
	if len(h) != 1 || h[0].UID != w[0].UID {
		return false
	}

	for name, value := range want.GetLabels() {
		if have.GetLabels()[name] != value {
			return false
		}
	}

	return have.GetAnnotations()[noteRoute] == want.GetAnnotations()[noteRoute] && difference(plain(have.Object["spec"]), plain(want.Object["spec"]), complete, []step{{name: "spec"}}) == nil
}

// rejected returns an error if the controller of the Gateway does not accept an HTTPRoute. It has
// not seen a new one.
func rejected(have *unstructured.Unstructured) error {
	parents, _, _ := unstructured.NestedSlice(have.Object, "status", "parents")
	for _, parent := range parents {
		one, _ := parent.(fields)
		conditions, _, _ := unstructured.NestedSlice(one, "conditions")
		for _, c := range conditions {
			c, _ := c.(fields)
			generation, _ := c["observedGeneration"].(int64)
			bad := c["status"] == "False" && (c["type"] == "Accepted" || c["type"] == "ResolvedRefs")
			if bad && generation == have.GetGeneration() {
				return fmt.Errorf("the Gateway of the cluster does not accept the route: %s", short(fmt.Sprint(c["reason"], ": ", c["message"])))
			}
		}
	}

	return nil
}

// readRoute returns the HTTPRoute of a key, whoever owns it, or nil.
func (d *Driver) readRoute(ctx context.Context, key string) (*unstructured.Unstructured, error) {
	found, err := d.objects.Resource(httpRoutes).Namespace(d.cfg.Namespace).List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + routeName(key)})
	if err != nil {
		return nil, fault(ctx, "read HTTPRoute", err)
	}

	if len(found.Items) == 0 {
		return nil, nil
	}

	return &found.Items[0], nil
}

func (d *Driver) removeRoute(ctx context.Context, name string, read metav1.Object) error {
	return d.remove(ctx, httpRoutes, &object{ObjectMeta: metav1.ObjectMeta{Name: name, UID: read.GetUID(), ResourceVersion: read.GetResourceVersion()}}, nil)
}

// unroutedEvery is how often HTTPRoutes are removed that no Gateway needs.
const unroutedEvery = time.Minute

// removeRoutes removes the HTTPRoutes of an owner if there is no Gateway: a former hub had one. A
// cluster without the Gateway API, or without the right to list them, has none of this hub.
func (d *Driver) removeRoutes(ctx context.Context, owner string) {
	d.unrouted.Lock()
	defer d.unrouted.Unlock()
	if d.routed || time.Since(d.unroutedAt) < unroutedEvery {
		return
	}

	found, err := d.metadata.Resource(httpRoutes).Namespace(d.cfg.Namespace).List(ctx, ofOwner(owner))
	if code := statusCode(err); code == http.StatusNotFound || code == http.StatusForbidden {
		d.routed = true // nothing to remove until the next start
	}

	if err != nil {
		return
	}

	d.unroutedAt = time.Now()
	for i := range found.Items {
		one := &found.Items[i]
		if one.Annotations[noteOwner] == owner && one.Name == routeName(one.Annotations[noteKey]) {
			if err := d.removeRoute(ctx, one.Name, one); err != nil {
				d.unroutedAt = time.Time{}
			}
		}
	}
}

// routeName is the name of the HTTPRoute of a key.
func routeName(key string) string { return commonName(deploy.Ref{Key: key}) }

// ofOwner selects the HTTPRoutes of an owner.
func ofOwner(owner string) metav1.ListOptions {
	return metav1.ListOptions{LabelSelector: labelManager + "=" + manager + "," + labelOwner + "=" + digest(owner)}
}
