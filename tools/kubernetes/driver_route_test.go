package kubernetes_test

import (
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/tools/kubernetes/clustertest"
)

// defineRoutes adds HTTPRoute to the cluster.
func defineRoutes(t *testing.T, c *clustertest.Cluster) {
	t.Helper()
	define(t, c, filepath.Join(gatewayModule(t), "config/crd/standard/gateway.networking.k8s.io_httproutes.yaml"), routeKind)
}

// define adds a kind to the cluster, whose definition is a file.
func define(t *testing.T, c *clustertest.Cluster, file string, kind schema.GroupKind) {
	t.Helper()
	a := newApplier(t, c)
	require.NoError(t, a.apply(t.Context(), file, nil))
	awaitNoError(t, func() error {
		a.mapper.Reset()
		_, err := a.mapper.RESTMapping(kind, "v1")
		return err
	})
}

// routes returns the client of the HTTPRoutes of the namespace.
func (p place) routes() dynamic.ResourceInterface {
	p.t.Helper()
	client, err := dynamic.NewForConfig(p.cluster.Config())
	require.NoError(p.t, err)
	return client.Resource(schema.GroupVersionResource{Group: routeKind.Group, Version: "v1", Resource: "httproutes"}).Namespace(p.namespace)
}

// route returns the only HTTPRoute, or nil if there is none.
func (p place) route() *unstructured.Unstructured {
	p.t.Helper()
	list, err := p.routes().List(p.t.Context(), meta.ListOptions{})
	require.NoError(p.t, err)
	require.LessOrEqual(p.t, len(list.Items), 1)
	if len(list.Items) == 0 {
		return nil
	}
	return &list.Items[0]
}

func (p place) patchRoute(change string, subresources ...string) {
	p.t.Helper()
	_, err := p.routes().Patch(p.t.Context(), p.route().GetName(), types.MergePatchType, []byte(change), meta.PatchOptions{FieldManager: "someone"}, subresources...)
	require.NoError(p.t, err)
}

var parent = [3]string{"gateway", "public", "https"}

func TestRoutes(t *testing.T) {
	p := newPlace(t)
	defineRoutes(t, p.cluster)
	d, ctx := p.open(t), t.Context()
	g, err := d.Gateway(parent[0], parent[1], parent[2])
	require.NoError(t, err)
	put := func(r deploy.Route) {
		t.Helper()
		require.NoError(t, g.Put(ctx, "first", r))
		all, err := g.Routes(ctx, "first")
		require.NoError(t, err)
		require.Equal(t, map[string]deploy.Route{key: r}, all)
	}
	wrong := func() {
		t.Helper()
		all, err := g.Routes(ctx, "first")
		require.NoError(t, err)
		require.Equal(t, map[string]deploy.Route{key: {Key: key}}, all)
	}
	none := deploy.Route{Key: key, Host: "agents.example.com", Path: "/helper", Target: "http://192.0.2.1:8080", Timeout: 31 * time.Minute}
	require.ErrorContains(t, g.Put(ctx, "first", none), "no Service")
	r := none
	r.Target = reach(t, d, 1, deploy.Running, "", func() error { return d.Apply(ctx, ref, 1, request()) }).URL
	put(r)
	spec := p.route().Object["spec"].(map[string]any)
	require.Equal(t, []any{map[string]any{"group": routeKind.Group, "kind": "Gateway", "namespace": "gateway", "name": "public", "sectionName": "https"}}, spec["parentRefs"])
	require.Equal(t, []any{"agents.example.com"}, spec["hostnames"])
	first := p.route()
	put(r)
	require.Equal(t, first.GetResourceVersion(), p.route().GetResourceVersion(), "nothing was written")

	for what, change := range map[string]string{
		"the host":       `{"spec":{"hostnames":["other.example.com"]}}`,
		"another host":   `{"spec":{"hostnames":["agents.example.com","other.example.com"]}}`,
		"another parent": `{"spec":{"parentRefs":[{"name":"other"}]}}`,
		"the path":       `{"spec":{"rules":[{"backendRefs":[{"name":"x","port":80}]}]}}`,
		"the owner":      `{"metadata":{"ownerReferences":null}}`,
		"the note":       `{"metadata":{"annotations":{"agenthost.dev/route":"x"}}}`,
	} {
		p.patchRoute(change)
		wrong()
		put(r)
		require.Equal(t, spec, p.route().Object["spec"], what)
	}
	p.patchRoute(`{"metadata":{"labels":{"agenthost.dev/owner":null}}}`)
	put(r)

	status := func(kind, value, text string) {
		t.Helper()
		p.patchRoute(`{"status":{"parents":[{"controllerName":"example.com/c","parentRef":{"name":"public"},"conditions":[{"type":"`+kind+
			`","status":"`+value+`","reason":"Reason","message":"`+text+`","lastTransitionTime":"2026-01-02T03:04:05Z","observedGeneration":`+
			strconv.FormatInt(p.route().GetGeneration(), 10)+`}]}]}}`, "status")
	}
	status("Accepted", "False", "no listener has the host")
	require.ErrorContains(t, g.Put(ctx, "first", r), "does not accept the route: Reason: no listener has the host")
	wrong()
	status("ResolvedRefs", "False", "no such Service")
	require.ErrorContains(t, g.Put(ctx, "first", r), "no such Service")
	status("Accepted", "True", "")
	put(r)

	require.ErrorIs(t, g.Put(ctx, "second", r), deploy.ErrForeignRoute)
	require.NoError(t, g.Remove(ctx, "second", key))
	all, err := g.Routes(ctx, "second")
	require.NoError(t, err)
	require.Empty(t, all)
	put(r)

	next := r
	next.Target = reach(t, d, 2, deploy.Running, "", func() error { return d.Apply(ctx, ref, 2, request()) }).URL
	require.NotEqual(t, r.Target, next.Target)
	put(next)
	require.NotEqual(t, spec, p.route().Object["spec"])
	require.Eventually(t, func() bool { // the Deployment of revision 1 no longer owns the HTTPRoute
		require.NoError(t, d.Discard(ctx, ref, 1))
		o, err := d.Observe(ctx, ref)
		return err == nil && o.Runtime(1).Phase == "" && len(p.pods(key, "1")) == 0
	}, patience, 50*time.Millisecond)
	put(next)

	require.NoError(t, g.Remove(ctx, "first", key))
	require.Nil(t, p.route())
	require.NoError(t, g.Remove(ctx, "first", key))
	put(next)
	p.end(t, d)
	require.Eventually(t, func() bool { return p.route() == nil }, patience, 50*time.Millisecond, "it ends with its Deployment")
}

// The HTTPRoute exists while the deployment serves and the hub has the setting.
func TestHubWithRoutes(t *testing.T) {
	p := newPlace(t)
	defineRoutes(t, p.cluster)
	h := &hub{t: t, place: p, data: t.TempDir()}
	setting := []string{"GATEWAY_KIND=httproute", "GATEWAY_URL=https://agents.example.com", "GATEWAY_PARENT=gateway/public"}
	h.start("kubernetes", setting...)
	defer func() { h.stop(syscall.SIGTERM) }()
	h.call("POST", agentPath, `{"name": "helper", "providerId": "demo", "model": "demo"}`)
	h.call("POST", agentPath+"/helper/deploy", "")
	exists := func(is bool) {
		t.Helper()
		require.Eventually(t, func() bool { return (p.route() != nil) == is }, patience, 50*time.Millisecond)
	}
	exists(true)
	h.reach(`"publicUrl":"https://agents.example.com/helper"`)
	h.call("POST", agentPath+"/helper/deploy/stop", "")
	exists(false)
	h.call("POST", agentPath+"/helper/deploy/start", "")
	exists(true)
	require.NoError(t, p.routes().Delete(t.Context(), p.route().GetName(), meta.DeleteOptions{}))
	exists(true)
	h.stop(syscall.SIGKILL)
	h.start("kubernetes")
	exists(false)
	h.stop(syscall.SIGTERM)
	h.start("kubernetes", setting...)
	exists(true)
	h.call("DELETE", agentPath+"/helper/deploy", "")
	exists(false)
	p.nothingLeft()
}
