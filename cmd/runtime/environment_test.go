package main_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// agentsOf returns the ids of the agents that are served.
func agentsOf(t *testing.T, in *instance, key string) (ids []string, err error) {
	t.Helper()
	list, err := clientOf(t, in.URL, key).Agents(t.Context())
	for _, a := range list {
		ids = append(ids, a.ID)
	}
	return ids, err
}

func TestConfigurationFileSelection(t *testing.T) {
	dir := write(t, demo)
	for name, id := range map[string]string{"env.yaml": "from-env", "flag.json": "from-flag"} {
		text := fmt.Sprintf(`{"agents":[{"id":%q,"model":"demo","provider":{"protocol":"demo"}}]}`, id)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	for name, row := range map[string]struct {
		dir       string
		env, args []string
		want      string
	}{
		"nothing there":    {t.TempDir(), nil, nil, "demo"},
		"the default":      {dir, nil, nil, "from-file"},
		"environment":      {dir, []string{"AGENT_CONFIG", "env.yaml"}, nil, "from-env"},
		"flag":             {dir, []string{"AGENT_CONFIG", "env.yaml"}, []string{"--config", "flag.json"}, "from-flag"},
		"another folder's": {t.TempDir(), nil, []string{"--config", filepath.Join(dir, "flag.json")}, "from-flag"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(row.dir)
			ids, err := agentsOf(t, serving(t, row.env, row.args...), "")
			require.NoError(t, err)
			require.Equal(t, []string{row.want}, ids)
		})
	}
}

func TestKeys(t *testing.T) {
	for name, row := range map[string]struct {
		file, env   string
		good, wrong []string
	}{
		"none":                      {"", "", []string{"", "anything"}, nil},
		"file":                      {`auth: {apiKey: "a, b"}`, "", []string{"a", "b"}, []string{"", "c", "a, b"}},
		"environment":               {"", "one", []string{"one"}, []string{"", "two"}},
		"list for rotation":         {"", " old,new ", []string{"old", "new"}, []string{"", "old,new", "o"}},
		"environment over the file": {`auth: {apiKey: [a, b]}`, "one", []string{"one"}, []string{"", "a", "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(write(t, row.file+demo))
			in := serving(t, []string{"AGENT_HTTP_API_KEY", row.env})
			for _, key := range row.good {
				_, err := agentsOf(t, in, key)
				require.NoError(t, err, key)
			}
			for _, key := range row.wrong {
				_, err := agentsOf(t, in, key)
				require.ErrorContains(t, err, "runtime responded with 401: ", key)
			}
		})
	}
}

func TestWorkingDirectory(t *testing.T) {
	file, env, flag := t.TempDir(), t.TempDir(), t.TempDir()
	here := write(t, demo)
	with := write(t, "cwd: "+file+demo)
	for name, row := range map[string]struct {
		dir       string
		env, args []string
		want      string
	}{
		"current":     {here, nil, nil, here},
		"file":        {with, nil, nil, file},
		"environment": {with, []string{"AGENT_CWD", env}, nil, env},
		"flag":        {with, []string{"AGENT_CWD", env}, []string{"--cwd", flag}, flag},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(row.dir)
			for ev, err := range clientOf(t, serving(t, row.env, row.args...).URL, "").Run(t.Context(), "from-file",
				wire.RunRequest{Message: "hello"}) {
				require.NoError(t, err)
				require.Equal(t, row.want, ev.Payload.(*wire.System).CWD)
				break
			}
		})
	}
}

// The path of the file is relative to the current directory, and paths in the file are relative to
// the file, regardless of cwd.
func TestPathsAreRelativeToTheFile(t *testing.T) {
	dir := write(t, `
cwd: work
agents:
  - id: a
    model: demo
    provider: {protocol: demo}
    systemPromptFile: prompt.md
    extraUserSkillDirs: [more]
    customTools: [{path: word.ts, hash: "sha256:0000000000000000000000000000000000000000000000000000000000000000", fileName: other.ts}]
`)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "work"), 0o700))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "more", "rhyme"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "more", "rhyme", "SKILL.md"), []byte("---\ndescription: Rhymes.\n---\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "word.ts"), nil, 0o600))
	t.Chdir(filepath.Dir(dir))
	config := filepath.Join(filepath.Base(dir), "agents.yaml")
	for _, args := range [][]string{{"--config", config}, {"--config", config, "--cwd", t.TempDir()}} {
		out, _, err := once(t, nil, append(args, "--check")...)
		require.EqualError(t, err, "the configuration has problems")
		require.Regexp(t, `^a: unavailable: load customTools\[0\]: load custom tool word\.ts: its hash is sha256:\w+, want sha256:0+; read system prompt: open .*prompt\.md: no such file or directory\n$`, out)
	}
	text, err := os.ReadFile(filepath.Join(dir, "agents.yaml"))
	require.NoError(t, err)
	text, _, _ = bytes.Cut(text, []byte("    customTools"))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "agents.yaml"), text, 0o600))
	out, _, err := once(t, nil, "--config", config, "--check")
	require.EqualError(t, err, "the configuration has problems")
	require.Equal(t, "a: unavailable: read system prompt: open "+filepath.Join(dir, "prompt.md")+": no such file or directory\n", out)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "prompt.md"), []byte("Be brief."), 0o600))
	in := serving(t, nil, "--config", config, "--cwd", t.TempDir())
	detail, err := clientOf(t, in.URL, "").Agent(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, "ready", detail.Status)
	require.Len(t, detail.AvailableSkills, 1)
	require.Equal(t, filepath.Join(dir, "more", "rhyme", "SKILL.md"), detail.AvailableSkills[0].Location)
}

func TestAddress(t *testing.T) {
	t.Chdir(t.TempDir())
	// serving passes --addr, which takes precedence.
	in := serving(t, []string{"AGENT_HTTP_ADDR", "203.0.113.1:1"})
	_, err := agentsOf(t, in, "")
	require.NoError(t, err)

	_, _, err = once(t, []string{"AGENT_HTTP_ADDR", in.URL[len("http://"):]})
	require.ErrorContains(t, err, "address already in use", "the environment names the address")
}

func TestProviderSettingsFromTheEnvironment(t *testing.T) {
	const key, bearer = "X-Api-Key", "Authorization"
	both := func(name string) func(url string) []string {
		return func(url string) []string { return []string{name + "_API_KEY", "lent", name + "_BASE_URL", url} }
	}
	keyAlone := func(string) []string { return []string{"ANTHROPIC_API_KEY", "lent"} }
	urlAlone := func(url string) []string { return []string{"ANTHROPIC_BASE_URL", url} }
	elsewhere := func(string) []string {
		return []string{"ANTHROPIC_API_KEY", "lent", "ANTHROPIC_BASE_URL", "http://127.0.0.1:1"}
	}
	for name, row := range map[string]struct {
		protocol modeltest.Protocol
		provider string // in addition to the protocol; %s is the upstream's address
		env      func(url string) []string
		header   string
		value    string
	}{
		"anthropic without a key":  {modeltest.Anthropic, "", both("ANTHROPIC"), key, "lent"},
		"openai without a key":     {modeltest.OpenAI, "", both("OPENAI"), bearer, "Bearer lent"},
		"in the style of its own":  {modeltest.Anthropic, "authStyle: bearer", both("ANTHROPIC"), bearer, "Bearer lent"},
		"no key wanted":            {modeltest.Anthropic, "authStyle: none", both("ANTHROPIC"), "", ""},
		"only an address":          {modeltest.Anthropic, "", urlAlone, "", ""},
		"own address, key alone":   {modeltest.Anthropic, "baseUrl: %s", keyAlone, key, "lent"},
		"own address goes first":   {modeltest.Anthropic, "baseUrl: %s", elsewhere, key, "lent"},
		"own address and key":      {modeltest.Anthropic, "baseUrl: %s, apiKey: own", elsewhere, key, "own"},
		"own address, none wanted": {modeltest.Anthropic, "baseUrl: %s, authStyle: none", elsewhere, "", ""},
		"another protocol's":       {modeltest.OpenAI, "baseUrl: %s", both("ANTHROPIC"), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			up := modeltest.Start(t, row.protocol, modeltest.Stream(modeltest.Text("Hi.")))
			provider := "protocol: " + string(row.protocol) + ", " + row.provider
			if row.provider != "" && row.provider[0] == 'b' {
				provider = fmt.Sprintf(provider, up.URL)
			}
			t.Chdir(write(t, "agents:\n  - {id: a, model: m, provider: {"+provider+"}}"))
			answer, err := clientOf(t, serving(t, row.env(up.URL)).URL, "").Complete(t.Context(), "a", wire.RunRequest{Message: "hello"})
			require.NoError(t, err)
			require.Equal(t, "Hi.", answer.Text)
			header := up.Await(t, 1).Header
			for _, name := range []string{key, bearer} {
				if name == row.header {
					require.Equal(t, []string{row.value}, header.Values(name))
				} else {
					require.Empty(t, header.Values(name))
				}
			}
		})
	}
}

func TestWithoutAnyKey(t *testing.T) {
	t.Chdir(write(t, "agents:\n  - {id: a, model: m, provider: {protocol: openai}}"))
	for _, env := range [][]string{nil, {"ANTHROPIC_API_KEY", "lent", "ANTHROPIC_BASE_URL", "http://127.0.0.1:1"}} {
		out, _, err := once(t, env, "--check")
		require.EqualError(t, err, "the configuration has problems")
		require.Equal(t, "a: unavailable: the provider has no API key: set its apiKey\n", out)
	}
}

// A key of an agent is sent to the vendor, not to the address of the environment, through the proxy
// of the environment.
func TestOwnKeyGoesToTheVendor(t *testing.T) {
	asked := make(chan string, 1)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Method + " " + r.Host
		w.WriteHeader(http.StatusForbidden)
	}))
	defer proxy.Close()
	dir := write(t, "agents:\n  - {id: a, model: m, provider: {protocol: anthropic, apiKey: own}}")
	p := spawn(t, dir, []string{"ANTHROPIC_API_KEY", "lent", "ANTHROPIC_BASE_URL", proxy.URL, "HTTPS_PROXY", proxy.URL},
		"--addr", "127.0.0.1:0")
	p.Started(t)
	answer, err := clientOf(t, p.URL, "").Complete(t.Context(), "a", wire.RunRequest{Message: "hello"})
	require.Error(t, err)
	require.Equal(t, "connection", answer.ErrorType)
	select {
	case got := <-asked: // the request came before the run could fail
		require.Equal(t, "CONNECT api.anthropic.com:443", got)
	default:
		require.FailNow(t, "the proxy was not asked")
	}
}

func TestAllowedHosts(t *testing.T) {
	for name, row := range map[string]struct{ env, flag, host string }{
		"none":                {"", "", ""},
		"environment":         {"a.example, b.example", "", "b.example"},
		"flag":                {"", "a.example", "a.example"},
		"flag over variable":  {"b.example", "a.example", "a.example"},
		"any":                 {"", "*", "c.example"},
		"a comma at the end":  {"a.example,", "", "a.example"},
		"a name with a port ": {"a.example:80", "", "a.example"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			args := []string{"--metrics-addr", "127.0.0.1:0"}
			if row.flag != "" {
				args = append(args, "--allowed-hosts", row.flag)
			}
			in := serving(t, []string{"AGENT_HTTP_ALLOWED_HOSTS", row.env}, args...)
			metrics := "http://" + in.Await(t, in.Log, servingMetrics)[1] + "/metrics"
			for _, host := range []string{"a.example", "b.example", "c.example", "localhost:1"} {
				want := http.StatusForbidden
				if host == row.host || row.flag == "*" || row.flag == "" && strings.Contains(row.env, host) || host == "localhost:1" {
					want = http.StatusOK
				}
				for _, url := range []string{in.URL + "/v1/agents", metrics} {
					req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
					require.NoError(t, err)
					req.Host = host
					res, err := caller(t).Do(req)
					require.NoError(t, err)
					require.NoError(t, res.Body.Close())
					require.Equal(t, want, res.StatusCode, "%s of %s", url, host)
				}
			}
		})
	}
}
