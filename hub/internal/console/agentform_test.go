package console_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// The form of an agent has the variables of its commands, which a change of another field keeps.
func TestCommandEnvironmentOfAnAgent(t *testing.T) {
	t.Parallel()
	s := serve(t)
	root := s.setUp()
	const path = "/api/v1/admin/agents/helper"
	s.call("POST", "/api/v1/admin/agents", root, map[string]any{
		"name": "helper", "providerId": "demo", "model": "demo", "commandEnv": map[string]any{"GIT_AUTHOR_NAME": "Helper"},
	}, http.StatusCreated)
	b := newTab(t)
	b.open(s.url + "/console/agents/helper/configure")
	b.signIn("root", password)
	b.see("Environment of commands")
	const field = "textarea[name=commandEnv]"
	require.JSONEq(t, `{"GIT_AUTHOR_NAME":"Helper"}`, eval[string](b, `document.querySelector("`+field+`").value`))
	b.fill("input[name=maxTurns]", "25")
	b.click("form button.primary")
	b.see("Saved.")
	require.Equal(t, map[string]any{"GIT_AUTHOR_NAME": "Helper"}, s.call("GET", path, root, nil, http.StatusOK)["commandEnv"])
	b.fill(field, `{"GIT_AUTHOR_NAME":"Other","not a name":"x"}`)
	b.click("form button.primary")
	b.wait(`document.querySelector("` + field + `").getAttribute("aria-invalid") === "true"`)
	b.fill(field, `{"GIT_AUTHOR_NAME":"Other","LANG":"C"}`)
	b.click("form button.primary")
	b.wait(`document.querySelector(".form.dirty") === null`)
	require.Equal(t, map[string]any{"GIT_AUTHOR_NAME": "Other", "LANG": "C"}, s.call("GET", path, root, nil, http.StatusOK)["commandEnv"])
	b.fill(field, "\b")
	b.click("form button.primary")
	b.wait(`document.querySelector(".form.dirty") === null`)
	require.Empty(t, s.call("GET", path, root, nil, http.StatusOK)["commandEnv"])
	b.visit("/agents/helper")
	b.see("Budgets of users do not limit runs at /runtime")
	b.clean(s.url)
}

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
