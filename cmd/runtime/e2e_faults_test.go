package main_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/wire"
)

const faultsYAML = `
limits: {mcpConnectTimeout: 3s, mcpStartTimeout: 3s, toolTimeout: 1s}
agents:
  - id: a
    model: m
    provider: {protocol: anthropic, baseUrl: "{upstream}", apiKey: key}
    permissionMode: bypassPermissions
    mcpServers:
      good: %s
      garbage: %s
      mute: %s
      dead: %s
      missing: {transport: stdio, command: no-such-command-anywhere}
      refused: {transport: http, url: "http://127.0.0.1:1/mcp?token=planted", headers: {Authorization: "Bearer planted"}}
      page: {transport: http, url: "{bad}/page"}
      broken: {transport: http, url: "{bad}/broken"}
      silent: {transport: http, url: "{bad}/silent"}
      page-sse: {transport: sse, url: "{bad}/page"}
      silent-sse: {transport: sse, url: "{bad}/silent"}
  - id: scripts
    model: m
    provider: {protocol: anthropic, baseUrl: "{upstream}", apiKey: key}
    permissionMode: bypassPermissions
    customTools: [{path: quick.ts}, {path: spin.ts}, {path: thrower.ts}, {path: eater.ts}, {path: strict.ts}]
`

// badServer is an invalid MCP server.
func badServer(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	switch r.URL.Path {
	case "/page":
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<html>Hello!</html>")
	case "/broken":
		w.WriteHeader(http.StatusInternalServerError)
	case "/silent":
		<-r.Context().Done()
	}
}

func newFaulty(t *testing.T, parts cast) *stage {
	bad := serveHTTP(t, http.HandlerFunc(badServer))
	var servers []any
	for _, role := range []string{"tools", "garbage", "mute", "dead"} {
		servers = append(servers, fmt.Sprintf(stdioServer, role))
	}
	s := newStage(t, parts, strings.ReplaceAll(fmt.Sprintf(faultsYAML, servers...), "{bad}", bad.URL))
	for name, text := range map[string]string{
		"quick.ts": scripts["quick.ts"], "spin.ts": scripts["spin.ts"],
		"thrower.ts": `export default {name: "thrower", description: "Throws.", call() { throw new TypeError("out of order") }}`,
		"eater.ts":   `export default {name: "eater", description: "Eats.", call() { const all = []; for (;;) all.push(new Array(1e5).fill(all.length)) }}`,
		"strict.ts": `export default {name: "strict", description: "Counts.", call: input => input.n + 1,
			inputSchema: {type: "object", properties: {n: {type: "integer", minimum: 3}}, required: ["n"], additionalProperties: false}}`,
	} {
		s.write(filepath.Join(s.home, name), text)
	}
	return s
}

func TestFailedServersAreReported(t *testing.T) {
	t.Parallel()
	s := newFaulty(t, cast{"go": {modeltest.Stream(use("echo", "mcp__good__echo", `{"text":"x"}`)), says("It works.")}})
	s.start()
	all := s.run("a", wire.RunRequest{Message: "go"})
	require.Equal(t, "It works.", *final(t, all).Result)
	require.Equal(t, "echo: x", results(all)["echo"].Output)
	status, said := map[string]string{}, map[string]string{}
	for _, server := range all[0].(*wire.System).MCPServers {
		if server.Status == "connected" { // at the start of the runtime: there is no later event
			status[server.Name] = server.Status
		}
	}
	for _, p := range all[1:] {
		if p, ok := p.(*wire.System); ok && p.Subtype == runvalue.SystemMCPStatus {
			require.NotContains(t, status, p.Name)
			status[p.Name], said[p.Name] = p.Status, p.Error
		}
	}
	require.Len(t, status, 11)
	for name, state := range status {
		t.Log(name, state, said[name])
		if name == "good" {
			require.Equal(t, "connected", state)
			require.Empty(t, said[name])
			continue
		}
		require.Equal(t, "failed", state, name)
		require.NotEmpty(t, said[name], name)
		require.NotContains(t, said[name], "planted")
	}
	for _, name := range []string{"mute", "silent", "silent-sse"} {
		require.Contains(t, said[name], "in time", name)
	}
	require.Contains(t, said["dead"], "exit status 3")
}

func TestImpossibleCallsGetErrorResults(t *testing.T) {
	t.Parallel()
	rows := []struct{ id, name, input, want string }{
		{"unknown", "Nothing", `{}`, `There is no tool "Nothing". The tools are: Bash, `},
		{"missing", "Read", `{}`, `The input does not match the schema of Read: `},
		{"extra", "Bash", `{"command":"true","sudo":true}`, `The input does not match the schema of Bash: `},
		{"wrong", "Glob", `{"pattern":[7]}`, `The input does not match the schema of Glob: `},
		{"array", "Bash", `["ls"]`, `The input is not a JSON object`},
		{"cut", "Bash", `{"command":"ec`, `The input is not a JSON object`},
		{"outside", "Read", `{"file_path":"../../etc/passwd"}`, ``},
		{"link", "Read", `{"file_path":"link"}`, ``},
		{"small", "strict", `{"n":2}`, `The input does not match the schema of strict: `},
		{"thrower", "thrower", `{}`, `out of order`},
		{"spin", "spin", `{}`, `The call exceeded its time limit of 1s and was stopped.`},
		{"eater", "eater", `{}`, ``},
		{"slow", "Bash", `{"command":"echo begun; sleep 1000"}`, "begun\n"},
		{"failing", "Bash", `{"command":"echo no; exit 7"}`, "no\nExit code 7"},
		{"killed", "Bash", `{"command":"kill -KILL $$"}`, "Killed by signal SIGKILL"},
	}
	var calls []modeltest.Step
	for _, row := range rows {
		calls = append(calls, use(row.id, row.name, row.input))
	}
	calls = append(calls, use("fine", "quick", `{"text":"after all"}`), use("strict", "strict", `{"n":3}`))
	s := newFaulty(t, cast{"go": {modeltest.Stream(calls...), says("I have seen it all.")}})
	require.NoError(t, linkOut(s.cwd))
	s.start()
	all := s.run("scripts", wire.RunRequest{Message: "go"})
	require.Equal(t, "I have seen it all.", *final(t, all).Result)
	requireOrder(t, all)
	outcome := results(all)
	for _, row := range rows {
		require.True(t, outcome[row.id].IsError, row.id)
		require.NotEmpty(t, outcome[row.id].Output, row.id)
		require.Contains(t, outcome[row.id].Output, row.want, row.id)
		require.NotContains(t, outcome[row.id].Output, "root:", row.id)
		require.NotContains(t, outcome[row.id].Output, s.home, row.id)
		t.Logf("%s: %.200q", row.id, outcome[row.id].Output)
	}
	require.Equal(t, "quick: after all", outcome["fine"].Output)
	require.Equal(t, "4", outcome["strict"].Output)
}

func TestInvalidSkills(t *testing.T) {
	t.Parallel()
	s := newFaulty(t, cast{"go": {
		modeltest.Stream(use("plain", "Skill", `{"skill":"plain"}`), use("open", "Skill", `{"skill":"open"}`),
			use("none", "Skill", `{"skill":"none"}`)),
		says("Read."),
	}})
	for name, text := range map[string]string{
		"good":    "---\nname: good\ndescription: Works.\n---\nBody.\n",
		"colon":   "---\nname: colon\ndescription: Use this: when it rains\n---\nBody.\n",
		"plain":   "No frontmatter at all.\n",
		"open":    "---\nname: open\ndescription: Never closed.\n",
		"binary":  "\x00\xff\xfe---\nname: binary\n",
		"shouted": "---\n- a\n- list\n---\nBody.\n",
		"empty":   "",
	} {
		s.write(filepath.Join(s.cwd, ".agents", "skills", name, "SKILL.md"), text)
	}
	s.start()
	all := s.run("scripts", wire.RunRequest{Message: "go"})
	require.Equal(t, "Read.", *final(t, all).Result)
	skills := all[0].(*wire.System).Skills
	t.Log(skills)
	require.Subset(t, skills, []string{"good", "colon", "plain", "open"})
	outcome := results(all)
	require.Contains(t, outcome["plain"].Output, "No frontmatter at all.")
	require.False(t, outcome["plain"].IsError)
	require.True(t, outcome["none"].IsError)
	require.Contains(t, string(readPrompt(s.up.Await(t, 1)).System), "- colon: Use this: when it rains")
	require.Contains(t, s.Log.String(), `"level":"warn"`)
	list, err := s.api().Agents(t.Context())
	require.NoError(t, err)
	for _, a := range list {
		require.Equal(t, "ready", a.Status)
	}
}

// linkOut creates a link that leads outside a directory.
func linkOut(dir string) error { return os.Symlink("/etc/passwd", filepath.Join(dir, "link")) }
