package interop_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/model/modeltest"
)

// address is that of a hub in the documents.
const address = "http://127.0.0.1:8080"

// team starts the hub of a team, on which helper runs with the demo model.
func team(t *testing.T) *hub {
	t.Helper()
	dir := t.TempDir()
	start(t, dir, []string{"HUB_DATA_DIR=" + dir, "HUB_SETUP_TOKEN=interop-setup-token", "HUB_LOG_LEVEL=warn"}, filepath.Join(os.Getenv(programsVariable), "agenthost"), "hub")
	h := &hub{url: address}
	awaitHTTP(t, h.url+"/health")
	var login struct {
		Token string `json:"access_token"`
	}
	h.send(t, http.StatusCreated, "POST", "/auth/setup", `{"username":"ada","password":"`+invented+`","setup_token":"interop-setup-token"}`, &login)
	h.token = login.Token
	h.send(t, http.StatusCreated, "POST", "/api/v1/admin/agents", `{"name":"helper","providerId":"demo","model":"demo"}`, nil)
	h.send(t, http.StatusAccepted, "POST", "/api/v1/admin/agents/helper/deploy", "", nil)
	return h
}

// signedIn opens a browser in which ada has signed in to the hub.
func signedIn(t *testing.T) *tab {
	t.Helper()
	b := browser(t)
	b.open(address)
	b.signIn("ada")
	return b
}

// signIn types the login of the document, which asks in the browser.
func (p *person) signIn(b *tab, shell *terminal) {
	p.t.Helper()
	shell.types(p.next() + "\n")
	p.follow(b)
	b.press("Sign the program in")
	_, code := shell.await(prompt.String())
	require.Equal(p.t, "0", code[1])
}

// TestLaptop: the directory of an agent that runs on a laptop becomes an agent of the team's hub,
// which answers with its prompt, its tool and its skill.
func TestLaptop(t *testing.T) {
	if !alone(t) {
		return
	}
	up := modeltest.Start(t, modeltest.Anthropic, modeltest.Repeat(modeltest.Stream(modeltest.Text("Written plainly."))))
	dir := t.TempDir()
	for name, text := range map[string]string{
		"agents.yaml": `agents:
  - id: writer
    model: claude-sonnet-4-5
    provider: {protocol: anthropic, baseUrl: "` + up.URL + `"}
    systemPromptFile: writer.md
    allowedTools: [Skill, word_count]
    customTools: [{path: word_count.ts}]
`,
		"writer.md":            "You write plainly.\n",
		"skills/tone/SKILL.md": "---\nname: tone\ndescription: How we write.\n---\nShort sentences.\n",
	} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	tool, err := os.ReadFile(filepath.Join("..", "..", "examples", "typescript", "word_count.ts"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "word_count.ts"), tool, 0o600))
	requireWhole := func(n int) {
		body := string(up.Await(t, n).Body)
		for _, part := range []string{"You write plainly.", "word_count", "How we write."} {
			require.Contains(t, body, part)
		}
	}

	p := newPerson(t, dir)
	shell := p.terminal("ANTHROPIC_API_KEY=sk-ant-laptop")
	shell.types("agenthost dev --agents .\n")
	shell.await(`\[y/N\]`)
	shell.types("y\n")
	shell.await("writer is running")
	require.Contains(t, p.terminal().run(`agenthost chat writer -m "Hello!"`), "Written plainly.")
	requireWhole(1)
	shell.ends()

	h := team(t)
	h.send(t, http.StatusCreated, "POST", "/api/v1/admin/providers",
		`{"name":"Models","protocol":"anthropic","baseUrl":"`+up.URL+`","apiKey":"sk-ant-team","models":[{"id":"claude-sonnet-4-5"}]}`, nil)
	b := signedIn(t)
	p.reads("cmd/agenthost/README.md", "From a laptop to a hub", "https://hub.example.com", address, "DIR", dir)
	p.signIn(b, shell)
	applied := shell.run(p.next())
	require.Contains(t, applied, "The agent writer is created.")
	require.Contains(t, applied, "The agent writer is running, revision 1.")
	require.Contains(t, shell.run(p.next()), "Written plainly.")
	requireWhole(2)
	require.Equal(t, "sk-ant-team", up.Await(t, 2).Header.Get("X-Api-Key"))
	require.False(t, strings.Contains(applied, "sk-ant"))
	p.did(3, 0)
}
