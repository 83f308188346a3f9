package interop_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/model/modeltest"
)

// TestBrowser: somebody who only has a browser and the link of the hub gets an answer of an agent
// of their own, whose model is that of a provider. The values are the password, the key of the
// provider, and the names of the provider and the agent.
func TestBrowser(t *testing.T) {
	if !alone(t) {
		return
	}
	const key = "sk-of-the-provider"
	up := modeltest.Start(t, modeltest.OpenAI, modeltest.Stream(modeltest.Text("Written plainly.")))
	vendor := http.NewServeMux()
	vendor.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"object":"list","data":[{"id":"small"}]}`))
	})
	vendor.Handle("/", up)
	models := httptest.NewServer(vendor)
	t.Cleanup(models.Close)

	p := newPerson(t, t.TempDir())
	operator := p.terminal("HUB_PROBE_ALLOW_PRIVATE=true", "HUB_LOG_LEVEL=error")
	operator.types("agenthost hub\n")
	_, link := operator.await(`http://\S+#setup=\w+`)

	b := browser(t)
	b.open(link[0])
	b.fill("Password", p.value(invented))
	b.press("Create the account")
	b.press("Add a provider")
	b.fill("Name", p.value("Local"))
	b.fill("Protocol", "openai")
	b.fill("Address", models.URL+"/v1")
	b.fill("API key", p.value(key))
	b.press("Test the connection")
	b.press("Use these models")
	b.press("Create")
	b.see("Created.")
	b.press("agenthost")
	b.press("Create an agent")
	b.fill("Name", p.value("writer"))
	b.fill("Provider", "Local")
	b.fill("System prompt", "You write plainly.")
	b.press("Create")
	b.press("Deploy")
	b.see("This is the agent's first deployment.")
	b.press("Deploy")
	b.see("The new revision is live.")
	b.press("Close")
	b.press("Start a chat")
	b.chat("Hello!", "Written plainly.")

	call := up.Await(t, 1)
	require.Equal(t, "Bearer "+key, call.Header.Get("Authorization"))
	require.Contains(t, string(call.Body), `"small"`)
	require.Contains(t, string(call.Body), "You write plainly.")
	require.NotContains(t, b.text(), key)
	p.did(0, 4)
}
