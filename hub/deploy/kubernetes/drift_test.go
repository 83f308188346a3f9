package kubernetes_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/deploy"
)

// Each field that someone adds to a NetworkPolicy may make it wider.
func TestWiderPolicies(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(spec object){
		"none":   func(object) {},
		"a rule": func(spec object) { spec["egress"] = append(spec["egress"].([]any), object{}) },
		"a peer": func(spec object) {
			first(spec["ingress"])["from"] = append(first(spec["ingress"])["from"].([]any), object{"namespaceSelector": object{}})
		},
		"all namespaces":   func(spec object) { first(first(spec["ingress"])["from"])["namespaceSelector"] = object{} },
		"a range of ports": func(spec object) { first(first(spec["ingress"])["ports"])["endPort"] = 65535 },
		"other pods": func(spec object) {
			spec["podSelector"].(object)["matchExpressions"] = []any{object{"key": "x", "operator": "Exists"}}
		},
		"only ingress": func(spec object) { spec["policyTypes"] = []any{"Ingress"} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lists := map[string][]any{"pods": {}}
			s := server(t, func(w http.ResponseWriter, r *http.Request) bool { return serveLists(lists, w, r) })
			d := open(t, s.URL)
			all, err := d.Objects(ref, 1, request(), time.Now())
			require.NoError(t, err)
			text, err := json.Marshal(all[3].Object["spec"])
			require.NoError(t, err)
			var spec object
			require.NoError(t, json.Unmarshal(text, &spec))
			edit(spec)
			all[3].Object["spec"] = spec
			store(lists, all, "1", object{"phase": "Running"})
			o, err := d.Observe(t.Context(), ref)
			require.NoError(t, err)
			want := deploy.Changed
			if name == "none" {
				want = deploy.Running
			}
			require.Equal(t, want, o.Runtime(1).Phase)
		})
	}
}

func first(list any) object { return list.([]any)[0].(object) }

// The message names the field that someone has changed, and the manager of the field.
func TestManagersOfChangedFields(t *testing.T) {
	t.Parallel()
	managed := func(manager, set string) object {
		return object{"manager": manager, "operation": "Update", "apiVersion": "apps/v1", "fieldsType": "FieldsV1", "fieldsV1": json.RawMessage(set)}
	}
	const image = `{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"runtime\"}":{"f:image":{}}}}}}}`
	for name, test := range map[string]struct {
		managers []any
		want     string
	}{
		"another manager": {[]any{managed("agenthost", `{"f:spec":{"f:replicas":{}}}`), managed("mirror", image)}, `which "mirror" manages`},
		"a webhook":       {[]any{managed("other", `{"f:status":{}}`), managed("agenthost", image)}, "which an admission webhook of the cluster changes"},
		"a part":          {[]any{managed("agenthost", `{"f:spec":{"f:template":{}}}`)}, "which an admission webhook of the cluster changes"},
		"no manager":      {nil, "which someone has removed"},
		"malformed sets":  {[]any{managed("a", `{"f:spec":1}`), managed("b", `[]`), managed("c", `{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{":{}}}}}}`)}, "which someone has removed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lists := map[string][]any{"pods": {}}
			s := server(t, func(w http.ResponseWriter, r *http.Request) bool { return serveLists(lists, w, r) })
			d := open(t, s.URL)
			all, err := d.Objects(ref, 1, request(), time.Now())
			require.NoError(t, err)
			pod := all[0].Object["spec"].(object)["template"].(object)["spec"].(object)
			first(pod["containers"])["image"] = "mirror.example.com/runtime:1"
			all[0].Object["metadata"].(object)["managedFields"] = test.managers
			store(lists, all, "1", nil)
			o, err := d.Observe(t.Context(), ref)
			require.NoError(t, err)
			require.Equal(t, deploy.Changed, o.Runtime(1).Phase)
			require.Equal(t, "someone has changed its objects in the cluster: spec.template.spec.containers[runtime].image of the Deployment, "+test.want, o.Runtime(1).Message)
		})
	}
}

// A copy that someone has made of an object, with its labels and annotations, is none of the
// deployment.
func TestCopiesOfObjects(t *testing.T) {
	t.Parallel()
	lists := map[string][]any{"pods": {}, "persistentvolumeclaims": {}}
	s := server(t, func(w http.ResponseWriter, r *http.Request) bool { return serveLists(lists, w, r) })
	d := open(t, s.URL)
	all, err := d.Objects(ref, 1, request(), time.Now())
	require.NoError(t, err)
	for _, o := range all {
		o.Object["metadata"].(object)["name"] = "copy"
		delete(o.Object["metadata"].(object), "ownerReferences")
	}
	store(lists, all, "1", object{"phase": "Running"})
	lists["persistentvolumeclaims"] = append(lists["persistentvolumeclaims"], all[4].Object)
	o, err := d.Observe(t.Context(), ref)
	require.NoError(t, err)
	require.Equal(t, deploy.Observed{}, o)
	keys, err := d.List(t.Context(), "database")
	require.NoError(t, err)
	require.Empty(t, keys)
}

// A watch is late: a deployment exists as long as the API server has one of its objects.
func TestWatchThatIsLate(t *testing.T) {
	t.Parallel()
	lists := map[string][]any{"pods": {}}
	s := server(t, func(w http.ResponseWriter, r *http.Request) bool {
		live := strings.Contains(r.URL.Query().Get("labelSelector"), "agenthost.dev/key=")
		return live && serveLists(lists, w, r)
	})
	d := open(t, s.URL)
	all, err := d.Objects(ref, 1, request(), time.Now())
	require.NoError(t, err)
	store(lists, all, "1", object{"phase": "Running"})
	o, err := d.Observe(t.Context(), ref)
	require.NoError(t, err)
	require.True(t, o.Exists)
	require.Equal(t, deploy.Running, o.Runtime(1).Phase)
}
