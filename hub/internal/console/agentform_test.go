package console_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"
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
	b.see("Command environment")
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
	b.see("User budgets do not apply to calls to /runtime")
	b.clean(s.url)
}

// The form of an agent has the schema of its output as JSON, with its fault in its place.
func TestOutputSchemaOfAnAgent(t *testing.T) {
	t.Parallel()
	s := serve(t)
	root := s.setUp()
	const path = "/api/v1/admin/agents/helper"
	s.call("POST", "/api/v1/admin/agents", root, map[string]any{
		"name": "helper", "providerId": "demo", "model": "demo", "outputSchema": map[string]any{"type": "object"},
	}, http.StatusCreated)
	b := newTab(t)
	b.open(s.url + "/console/agents/helper/configure")
	b.signIn("root", password)
	b.see("Output schema")
	const field = "textarea[name=outputSchema]"
	require.JSONEq(t, `{"type":"object"}`, eval[string](b, `document.querySelector("`+field+`").value`))
	b.fill(field, `{"type":`)
	b.click("form button.primary")
	b.wait(`document.querySelector("` + field + `").getAttribute("aria-invalid") === "true"`)
	b.fill(field, `{"type":"array"}`)
	b.click("form button.primary")
	b.see("it is not of type object")
	b.fill(field, `{"type":"object","required":["sum"]}`)
	b.click("form button.primary")
	b.wait(`document.querySelector(".form.dirty") === null`)
	require.Equal(t, map[string]any{"type": "object", "required": []any{"sum"}}, s.call("GET", path, root, nil, http.StatusOK)["outputSchema"])
	b.fill(field, "\b")
	b.click("form button.primary")
	b.wait(`document.querySelector(".form.dirty") === null`)
	require.Empty(t, s.call("GET", path, root, nil, http.StatusOK)["outputSchema"])
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

// The field of the model suggests what the provider lists and what it serves, asks the provider
// once and only when the field is used, and takes any text. A provider that does not respond with a
// list, or has no key, does not stop the form.
func TestModelsOfAProviderAreSuggested(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.Header.Get("Authorization") == "Bearer sk-incorrect":
			w.WriteHeader(http.StatusUnauthorized)
		case strings.HasPrefix(r.URL.Path, "/empty"):
			_, _ = w.Write([]byte(`{"object":"list","data":[]}`))
		default:
			_, _ = w.Write([]byte(`{"object":"list","data":[{"id":"small"},{"id":"large"}]}`))
		}
	}))
	t.Cleanup(upstream.Close)
	s := serve(t)
	root := s.setUp()
	provider := func(name, path, key string, models ...any) string {
		body := map[string]any{"name": name, "protocol": "openai", "baseUrl": upstream.URL + path, "models": models, "apiKey": key}
		return s.call("POST", "/api/v1/admin/providers", root, body, http.StatusCreated)["id"].(string)
	}
	lists := provider("Lists", "/v1", "sk-correct", map[string]any{"id": "own"})
	empty, refused, keyless := provider("Empty", "/empty", "sk-correct"), provider("Refused", "/v1", "sk-incorrect"), provider("Keyless", "/v1", "")
	b := newTab(t)
	b.open(s.url + "/console/agents?create=1")
	b.signIn("root", password)
	b.fill("input[name=name]", "writer")
	options := func() []string {
		return eval[[]string](b, `[...document.querySelector("input[name=model]").list.options].map((o) => o.value)`)
	}
	focus := func() {
		b.do(chromedp.Evaluate[chromedp.Void](`{ const e = document.querySelector("input[name=model]"); e.blur(); e.focus() }`))
	}
	b.choose("select[name=providerId]", lists)
	b.wait(`document.querySelector("input[name=model]").value === "own"`)
	require.Equal(t, []string{"own"}, options())
	require.Zero(t, asked.Load(), "the field was not used")
	focus()
	b.see("The provider serves 2 models.")
	require.Equal(t, []string{"own", "small", "large"}, options())
	b.choose("select[name=providerId]", empty)
	focus()
	b.see("The provider does not list its models")
	b.accessible("a note below the model")
	b.choose("select[name=providerId]", keyless)
	focus()
	b.see("The provider has no key")
	b.choose("select[name=providerId]", refused)
	focus()
	b.see("The provider did not list its models: The server rejects the key")
	require.Empty(t, options())
	b.choose("select[name=providerId]", lists)
	focus()
	b.see("The provider serves 2 models.")
	require.EqualValues(t, 3, asked.Load(), "each provider with a key is asked once")
	b.fill("input[name=model]", "one-of-tomorrow")
	b.fits()
	b.click("form .primary")
	b.see("Not deployed")
	require.Equal(t, "one-of-tomorrow", s.call("GET", "/api/v1/admin/agents/writer", root, nil, http.StatusOK)["model"])
	b.clean(s.url)
}
