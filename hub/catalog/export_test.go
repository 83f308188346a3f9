package catalog_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/runtime/agent"
)

func (s *server) importYAML(text, query string) (response interface {
	Error(int, api.Code) object
	Want(int) object
}) {
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
		exported := s.bob.Get(agents + "/coder/export")
		require.Equal(t, http.StatusOK, exported.Status)
		require.Equal(t, "application/yaml", exported.Header.Get("Content-Type"))
		require.NotContains(t, exported.Text, "sk-planted")
		file, err := agent.Parse("agents.yaml", []byte(exported.Text), func(name string) (string, bool) { return "v", name == "MCP_WEB_AUTHORIZATION" })
		require.NoError(t, err, exported.Text)
		require.NoError(t, file.Agents[0].Check())

		s.importYAML(exported.Text, "").Error(http.StatusConflict, api.NameTaken)
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
		require.ErrorIs(t, err, api.NotFound)
		require.NotContains(t, strings.Join(s.Audit("acme"), "\n"), "sk-planted")
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
			head + "  provider: {protocol: demo}\n  temperature: 1":                                  "agents[0].temperature",
			head + "  provider: {protocol: demo}\n  customTools: [{name: t, path: t.ts}]":            "tools[0]",
			head + "  provider: {protocol: demo}\n  unknown: 1":                                      "agents[0].unknown",
		} {
			body := s.importYAML(text, "").Error(http.StatusUnprocessableEntity, api.ArtifactInvalid)
			require.Contains(t, body["data"].(object)["fields"], want, text)
		}
		s.ada.Post(agents+"/import", object{}).Error(http.StatusUnsupportedMediaType, api.UnsupportedMedia)
	})
}
