package kubernetes_test

import (
	"encoding/json"
	"net/http"
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
			all, err := d.Objects(claim(1), 1, request(), time.Now())
			require.NoError(t, err)
			text, err := json.Marshal(all[3].Object["spec"])
			require.NoError(t, err)
			var spec object
			require.NoError(t, json.Unmarshal(text, &spec))
			edit(spec)
			all[3].Object["spec"] = spec
			store(lists, all, "1", object{"phase": "Running"})
			o, err := d.Observe(t.Context(), key)
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
