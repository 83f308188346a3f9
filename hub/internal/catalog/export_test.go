package catalog_test

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/api/apitest"
	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/runtime/agent"
)

func (s *server) importYAML(text, query string) apitest.Response {
	return s.ada.Do(http.MethodPost, agents+"/import"+query, strings.NewReader(text), "Content-Type", "application/yaml")
}

func TestAnExportedAgentIsImportedAsItWas(t *testing.T) {
	each(t, nil, func(t *testing.T, s *server) {
		s.ada.Post(mcps, object{"name": "web", "transport": "http", "url": "https://m.example", "headers": object{"authorization": "Bearer sk-planted"}}).Want(201)
		s.ada.Post(knowledge, object{"name": "handbook", "datasetId": "hb", "description": "The handbook"}).Want(http.StatusCreated)
		body := demo("coder", "title", "Coder", "titleEn", "Coder EN", "icon", "x", "isDefault", true, "systemPrompt", "a: b\n  ${NOT_A_VARIABLE}\n",
			"allowedTools", []any{}, "mcps", []any{"web"}, "knowledge", []any{"handbook"},
			"subagents", object{"r": object{"description": "d", "prompt": "p", "mcpServers": []any{"web"}}})
		a := s.ada.Post(agents, body).Want(http.StatusCreated)
		exported := s.ada.Get(agents + "/coder/export")
		require.Equal(t, http.StatusOK, exported.Status)
		require.Equal(t, "application/yaml", exported.Header.Get("Content-Type"))
		require.NotContains(t, exported.Text, "sk-planted")
		file, err := agent.Parse("agents.yaml", []byte(exported.Text), func(name string) (string, bool) { return "v", name == "MCP_WEB_AUTHORIZATION" })
		require.NoError(t, err, exported.Text)
		require.NoError(t, file.Agents[0].Check())

		s.importYAML(exported.Text, "").Error(http.StatusConflict, wire.NameTaken)
		s.ada.Delete(agents + "/coder").Want(http.StatusNoContent)
		b := s.importYAML(exported.Text, "").Want(http.StatusCreated)
		require.Equal(t, a["contentHash"], b["contentHash"])
		s.importYAML(strings.Replace(exported.Text, "title: Coder\n", "title: New\n", 1), "?replace=true").Want(http.StatusOK)
		require.Equal(t, "New", s.ada.Get(agents + "/coder").Want(http.StatusOK)["title"])

		d, err := s.Deployment(t.Context(), "acme", "coder")
		require.NoError(t, err)
		require.Equal(t, agent.Secret("Bearer sk-planted"), d.MCPServers["web"].Headers["Authorization"])
		require.Equal(t, map[string]string{"hb": "The handbook"}, d.Datasets)
		require.NoError(t, d.Validate())
		require.NoError(t, d.Check())
		_, err = s.Deployment(t.Context(), "other", "coder")
		require.ErrorIs(t, err, wire.NotFound)
		require.NotContains(t, strings.Join(s.Audit("acme"), "\n"), "sk-planted")
	})
}

// A file of 1 MiB costs little, whatever it contains, and its response names at most 100 faults.
func TestImportsAreBounded(t *testing.T) {
	t.Parallel()
	const head = "agents:\n- id: a\n  model: m\n  provider: {protocol: demo}\n"
	fill := func(before, part, after string) string {
		return before + strings.Repeat(part, (1<<20-len(before)-len(after))/len(part)) + after
	}
	unknown := head
	for i := range 5000 {
		unknown += fmt.Sprintf("  k%d: 1\n", i)
	}
	s := open(t, dbtest.SQLite(t, series...), nil)
	for name, row := range map[string]struct{ text, field string }{
		"agents":         {fill("agents: [", "{},", "{}]"), "agents"},
		"agents in JSON": {fill(`{"agents":[`, "{},", "{}]}"), "agents"},
		"other lists":    {fill(head+"  hub: {skills: [", "a,", "a]}"), "file"},
		"a long key":     {fill(head+"  mcpServers: {", "x", ": {env: {a: b}}}"), "file"},
		"long lines":     {fill(head+"  \"", "x", "\": 1"), "file"},
		"no end":         {fill("agents: [", "\n{},", "{}"), "file"},
		"deep":           {fill("agents: ", "[", ""), "file"},
		"aliases":        {head + "  x: &x [1,1,1,1,1,1,1,1,1,1]\n  y: &y [*x,*x,*x,*x,*x,*x,*x,*x]\n  z: &z [*y,*y,*y,*y,*y,*y,*y,*y]\n  w: &w [*z,*z,*z,*z,*z,*z,*z]\n  v: [*w,*w,*w,*w,*w]\n", "file"},
		"merge keys":     {head + "  x: &x {a: 1, b: 2}\n" + strings.Repeat("  y: {<<: [*x,*x,*x,*x,*x,*x,*x,*x,*x]}\n", 2000), "agents[0].x"},
		"documents":      {fill("", "---\nagents: []\n", ""), "file"},
		"faults":         {unknown, "agents[0].k0"},
		"datasets":       {fill(head+"  datasets: {", "x: y, ", "}")[:100_000], "file"},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r := s.importYAML(row.text, "")
		runtime.ReadMemStats(&after)
		body := r.Error(http.StatusUnprocessableEntity, code.ArtifactInvalid)
		fields := body["data"].(object)["fields"].(object)
		require.Contains(t, fields, row.field, name)
		require.LessOrEqual(t, len(fields), 100, name)
		require.Less(t, len(r.Text), 100_000, name)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(600<<20), name)
	}
}

// Text that PostgreSQL cannot store is a fault, wherever it is.
func TestImportsOfTextThatCannotBeStored(t *testing.T) {
	each(t, nil, func(t *testing.T, s *server) {
		const head = "agents:\n- id: a\n  model: m\n  provider: {protocol: demo}\n"
		for _, text := range []string{
			head + `  datasets: {"a\0b": x}`, head + `  datasets: {b: "x\0"}`, head + `  mcpServers: {"a\0": {transport: stdio, command: x}}`,
			head + `  hub: {skills: ["a\0"]}`, head + `  hub: {tools: ["\x00"]}`, head + `  customTools: [{name: "a\u0000", path: t.ts}]`,
			head + `  datasets: {? !!binary AAH/ : x}`, head + `  hub: {skills: [!!binary AAH/]}`, head + `  "a\0": 1`,
			"agents:\n- id: \"a\\0\"\n  model: m\n  provider: {protocol: demo}\n", "agents:\n- id: a\n  model: m\n  provider: {protocol: openai, baseUrl: \"https://a\\0\"}\n",
			`{"agents":[{"id":"a","model":"m","provider":{"protocol":"demo"},"datasets":{"a\u0000b":"x"}}]}`, head + "  name: \xff\n",
		} {
			s.importYAML(text, "").Error(http.StatusUnprocessableEntity, code.ArtifactInvalid)
		}
	})
}

func TestImportNamesWhatIsMissing(t *testing.T) {
	each(t, nil, func(t *testing.T, s *server) {
		const head = "agents:\n- id: a\n  model: m\n"
		for text, want := range map[string]string{
			"": "file", "agents: []": "agents", "agents: [": "file", head: "agents[0].provider",
			head + "  provider: {protocol: anthropic, baseUrl: 'https://x.example'}":                 "agents[0].provider",
			head + "  provider: {protocol: demo}\n  mcpServers: {m: {transport: stdio, command: x}}": "mcps[0]",
			head + "  provider: {protocol: demo}\n  datasets: {d: x}":                                "agents[0].datasets.d",
			head + "  provider: {protocol: demo}\n  hub: {skills: [s]}":                              "skills[0]",
			head + "  provider: {protocol: demo}\n  temperature: 3":                                  "agents[0].temperature",
			head + "  provider: {protocol: demo}\n  allowedTools: ['Bash(git *']":                    "allowedTools[0]",
			head + "  provider: {protocol: demo}\n  systemPromptFile: x.md":                          "agents[0].systemPromptFile",
			"auth: {apiKey: k}\n" + head + "  provider: {protocol: demo}":                            "auth",
			"cwd: /srv\n" + head + "  provider: {protocol: demo}":                                    "cwd",
			"sandbox: {limits: {maxProcesses: 1}}\n" + head + "  provider: {protocol: demo}":         "sandbox",
			head + "  provider: {protocol: demo}\n  customTools: [{name: t, path: t.ts}]":            "tools[0]",
			head + "  provider: {protocol: demo}\n  unknown: 1":                                      "agents[0].unknown",
		} {
			body := s.importYAML(text, "").Error(http.StatusUnprocessableEntity, code.ArtifactInvalid)
			require.Contains(t, body["data"].(object)["fields"], want, text)
		}
		s.ada.Post(agents+"/import", object{}).Error(http.StatusUnsupportedMediaType, code.UnsupportedMedia)
	})
}
