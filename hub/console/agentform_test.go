package console_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// The form of an agent has the deployment settings, with their faults in their place.
func TestDeploymentSettingsOfAnAgent(t *testing.T) {
	t.Parallel()
	s := serve(t)
	root := s.setUp()
	const path = "/api/v1/admin/agents/helper"
	s.call("POST", "/api/v1/admin/agents", root, map[string]any{
		"name": "helper", "providerId": "demo", "model": "demo", "deployment": map[string]any{"memory": "512Mi", "replicas": 2},
	}, http.StatusCreated)
	b := newTab(t)
	b.open(s.url + "/console/agents/helper/configure")
	b.signIn("root", password)
	b.see("Replicas")
	require.Equal(t, "512Mi,2", eval[string](b, `["memory", "replicas"].map((name) => document.querySelector('input[name="deployment.' + name + '"]').value).join()`))
	b.fill(`input[name="deployment.cpu"]`, "2")
	b.click("form button.primary")
	b.see("in thousandths of a processor, such as 500m")
	require.Contains(t, eval[string](b, `document.querySelector('input[name="deployment.cpu"]').closest("label, .field").textContent`), "must be from 10m")
	b.fill(`input[name="deployment.cpu"]`, "250m")
	b.fill(`input[name="deployment.replicas"]`, "\b")
	b.click("form button.primary")
	b.see("Saved.")
	require.Equal(t, map[string]any{"memory": "512Mi", "cpu": "250m"}, s.call("GET", path, root, nil, http.StatusOK)["deployment"])
	b.clean(s.url)
}
