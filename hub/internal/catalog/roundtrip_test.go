package catalog_test

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/api/apitest"
	"github.com/seed93082962/agenthost/hub/internal/catalog"
	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/internal/secret"
	"github.com/seed93082962/agenthost/runtime/agent"
)

func TestToolsAndSkillsOfAnExportedAgent(t *testing.T) {
	each(t, nil, func(t *testing.T, s *server) {
		tool := send(t, s.ada, http.MethodPost, tools, "weather.ts", toolSource).Want(http.StatusCreated)
		send(t, s.ada, http.MethodPost, skills, "SKILL.md", "---\nname: pdf\ndescription: d\n---\n").Want(http.StatusCreated)
		s.ada.Post(knowledge, object{"name": "off", "datasetId": "o", "enabled": false}).Want(http.StatusCreated)
		a := s.ada.Post(agents, demo("coder", "tools", []any{"Read", "weather", "Bash"}, "skills", []any{"pdf"}, "knowledge", []any{"off"})).Want(http.StatusCreated)
		exported := s.ada.Get(agents + "/coder/export").Text
		file, err := agent.Parse("agents.yaml", []byte(exported), func(string) (string, bool) { return "", false })
		require.NoError(t, err, exported)
		require.Equal(t, []agent.CustomTool{{
			Name: "weather", FileName: "weather.ts", Hash: tool["hash"].(string),
			URL: "https://hub.example.com/artifacts/tools/" + strings.TrimPrefix(tool["hash"].(string), "sha256:") + "/weather.ts",
		}}, file.Agents[0].CustomTools)
		require.Equal(t, []string{"Read", "Bash"}, file.Agents[0].Hub.Tools)
		require.NoError(t, file.Agents[0].Check())

		b := s.importYAML(exported, "?replace=true").Want(http.StatusOK)
		require.Equal(t, a["contentHash"], b["contentHash"])
		s.ada.Delete(agents + "/coder").Want(http.StatusNoContent)
		b = s.importYAML(exported, "").Want(http.StatusCreated)
		require.Equal(t, a["contentHash"], b["contentHash"])
		body := s.importYAML(strings.Replace(exported, "protocol: demo", "protocol: demo\n        headers: {X: y}\n        streamUsage: false", 1), "?replace=true").
			Error(http.StatusUnprocessableEntity, code.ArtifactInvalid)
		require.Contains(t, body["data"].(object)["fields"], "agents[0].provider.headers.X")
		require.Contains(t, body["data"].(object)["fields"], "agents[0].provider.streamUsage")
	})
}

// The format of the hash. If it changes, clients read every agent again.
func TestTheContentHashHasThisValue(t *testing.T) {
	t.Parallel()
	hash, err := catalog.ContentHash(catalog.Agent{Agent: wire.Agent{
		Name: "coder", Title: "Coder", Enabled: true, ProviderID: "demo", Tools: []string{"Read"}, Skills: []string{}, MCPs: []string{},
		Knowledge: []wire.KnowledgeRef{{Name: "handbook", Description: "d"}},
		Model:     "demo", MaxTurns: 10, PermissionMode: "default", AllowedTools: []string{}, DisallowedTools: []string{"Write"},
		Subagents: map[string]agent.Subagent{"r": {Description: "d", Prompt: "p"}}, SettingSources: []string{"user", "project"},
	}}, nil)
	require.NoError(t, err)
	require.Equal(t, "sha256:031cf56275377f19a4c16b3d8bebb8291d323ec7fc4cd41b871e5b6f924b0010", hash)
}

func TestRekeyOfMCPServers(t *testing.T) {
	older, newer := secret.Generate(), secret.Generate()
	each(t, nil, func(t *testing.T, s *server) {
		at := func(keys ...string) *catalog.Service {
			cfg := s.cfg
			cfg.Store = apitest.NewStore(t, s.db, store.Config{Audit: cfg.Store.Audit, Keyring: apitest.Keyring(t, keys...)})
			service, err := catalog.New(cfg)
			require.NoError(t, err)
			return service
		}
		in := catalog.MCPInput{MCPRequest: wire.MCPRequest{Name: "m", Transport: "stdio", Command: "run", Env: map[string]string{"A": "1", "B": "2"}}}
		for _, caller := range []api.Caller{s.ada.Caller, s.eve.Caller} {
			_, err := at(older).MCPs.Create(t.Context(), caller, in)
			require.NoError(t, err)
		}
		lost := catalog.MCPInput{MCPRequest: wire.MCPRequest{Name: "lost", Transport: "http", URL: "https://m.example", Headers: map[string]string{"X-Key": "3"}}}
		_, err := at(secret.Generate()).MCPs.Create(t.Context(), s.ada.Caller, lost)
		require.NoError(t, err)
		both := at(newer, older)
		for _, want := range []int{4, 0} {
			n, err := apitest.NewStore(t, s.db, store.Config{Audit: s.cfg.Store.Audit, Keyring: apitest.Keyring(t, newer, older)}).Reseal(t.Context(), catalog.Sealed()...)
			require.NoError(t, err)
			require.Equal(t, want, n)
		}
		_, err = both.CreateAgent(t.Context(), s.eve.Caller, catalog.AgentInput{AgentRequest: wire.AgentRequest{Name: "a", ProviderID: "demo", Model: "m", MCPs: []string{"m"}}})
		require.NoError(t, err)
		d, err := at(newer).Deployment(t.Context(), "other", "a")
		require.NoError(t, err)
		require.Equal(t, map[string]agent.Secret{"A": "1", "B": "2"}, d.MCPServers["m"].Env)

		// What earlier versions bound to less is bound when a hub starts.
		var id string
		require.NoError(t, s.db.Read().QueryRowContext(t.Context(), `SELECT id FROM mcps WHERE tenant_id = 'other'`).Scan(&id))
		for _, bound := range [][]string{{}, {"other"}, {"other", "run", ""}} {
			text := func(name, value string) string {
				sealed := apitest.Keyring(t, newer).Seal([]byte(value), secret.AAD("mcps", "env/"+name, id, bound...))
				return `"` + name + `":"` + base64.StdEncoding.EncodeToString(sealed) + `"`
			}
			_, err = s.db.Write().ExecContext(t.Context(), `UPDATE mcps SET env = $1 WHERE tenant_id = 'other'`, `{`+text("A", "1")+`,`+text("B", "2")+`}`)
			require.NoError(t, err)
			n, err := apitest.NewStore(t, s.db, store.Config{Audit: s.cfg.Store.Audit, Keyring: apitest.Keyring(t, newer)}).Rebind(t.Context(), catalog.Sealed()...)
			require.NoError(t, err)
			require.Equal(t, 2, n)
			d, err := at(newer).Deployment(t.Context(), "other", "a")
			require.NoError(t, err)
			require.Equal(t, map[string]agent.Secret{"A": "1", "B": "2"}, d.MCPServers["m"].Env)
		}

		// A value that cannot be opened fails only what needs it.
		_, err = both.CreateAgent(t.Context(), s.ada.Caller, catalog.AgentInput{AgentRequest: wire.AgentRequest{Name: "a", ProviderID: "demo", Model: "m", MCPs: []string{"lost"}}})
		require.NoError(t, err)
		_, err = both.Deployment(t.Context(), "acme", "a")
		require.ErrorIs(t, err, wire.Conflict)
		require.ErrorContains(t, err, "set it again")
		require.Len(t, s.bob.Get(mcps).Items(), 2)
		_, err = both.MCPs.Replace(t.Context(), s.ada.Caller, "lost", nil, lost)
		require.NoError(t, err)
		_, err = both.Deployment(t.Context(), "acme", "a")
		require.NoError(t, err)
	})
}

func TestSearchOfNamesAndTitles(t *testing.T) {
	each(t, nil, func(t *testing.T, s *server) {
		titles := map[string]string{"percent": "100% sure", "under": "snake_case", "slash": `C:\temp`, "accent": "ÉCOLE Straße", "chinese": "天气查询"}
		for name, title := range titles {
			s.ada.Post(agents, demo(name, "title", title)).Want(http.StatusCreated)
			s.ada.Post(knowledge, object{"name": name, "title": title, "datasetId": name}).Want(http.StatusCreated)
			s.ada.Post(mcps, object{"name": name, "title": title, "transport": "stdio", "command": "x"}).Want(http.StatusCreated)
			s.ada.Post(scenes, object{"name": name, "title": title, "agentName": name}).Want(http.StatusCreated)
		}
		for query, want := range map[string]string{
			"%25": "percent", "_": "under", "%5C": "slash", "%C3%A9cole": "accent", "STRA%C3%9FE": "accent", "%E5%A4%A9%E6%B0%94": "chinese", "UNDER": "under",
		} {
			for _, list := range []string{agents, "/api/v1/agents", knowledge, mcps, scenes, "/api/v1/scenes"} {
				items := s.bob.Get(list + "?q=" + query).Items()
				require.Len(t, items, 1, "%s %s", list, query)
				require.Equal(t, want, items[0]["name"], "%s %s", list, query)
			}
		}
		for _, query := range []string{"%25%25", "__", "a%0Ab", "'%20OR%20''='"} {
			require.Empty(t, s.bob.Get(agents+"?q="+query).Items(), query)
			require.Empty(t, s.bob.Get(knowledge+"?q="+query).Items(), query)
		}
	})
}

// FuzzImport imports files. A file that cannot be imported is not an internal error, and one that
// can be is exported as a file of the same content.
func FuzzImport(f *testing.F) {
	for _, seed := range []string{
		"agents: []", "agents:\n- id: a\n  model: m\n  provider: {protocol: demo}\n  allowedTools: []\n  hub: {title: A, tools: [Read]}\n",
		"agents: &a\n- *a\n", "a: !!binary x", "agents:\n- {id: a, model: m, provider: {protocol: demo}, subagents: {r: {description: d, prompt: p}}}",
	} {
		f.Add([]byte(seed))
	}
	s := open(f, dbtest.SQLite(f, series...), nil)
	f.Fuzz(func(t *testing.T, text []byte) {
		a, _, err := s.ImportAgent(t.Context(), s.ada.Caller, text, true)
		if err != nil {
			require.ErrorIs(t, err, code.ArtifactInvalid)
			return
		}
		exported, err := s.ExportAgent(t.Context(), s.ada.Caller, a.Name)
		require.NoError(t, err)
		b, _, err := s.ImportAgent(t.Context(), s.ada.Caller, exported, true)
		require.NoError(t, err, "%s", exported)
		require.Equal(t, a.ContentHash, b.ContentHash, "%s", exported)
		require.Equal(t, a.Version, b.Version)
	})
}
