package catalog_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/internal/provider"
	"github.com/seed93082962/agenthost/hub/internal/settings"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// everySetting has a value of every setting of an agent that a hub stores itself. The agent refers
// to the others.
func everySetting(t *testing.T) object {
	t.Helper()
	body := object{
		"description": "Writes code.", "model": "m", "systemPrompt": "You write code. ${X}\n", "maxOutputTokens": 2000.0, "contextWindow": 100_000.0,
		"temperature": 0.0, "thinking": object{"type": "adaptive", "effort": "low"}, "maxTurns": 7.0, "permissionMode": "plan",
		"allowedTools": []any{"Read", "Bash(git *)"}, "disallowedTools": []any{"Write"}, "settingSources": []any{"user"}, "extraUserSkillDirs": []any{"/srv/skills"},
		"commandEnv":   object{"GIT_AUTHOR_NAME": "Coder", "LITERAL": "${NAME}"},
		"outputSchema": object{"type": "object", "properties": object{"a": object{"const": "<&>"}}},
		"subagents": object{"reviewer": object{
			"description": "Reviews", "prompt": "Review.", "tools": []any{}, "disallowedTools": []any{"Edit"}, "model": "small", "mcpServers": []any{"web"},
			"skills": []any{"pdf"}, "maxTurns": 3.0,
		}},
		"sandbox": object{"mode": "required", "read": []any{"/srv"}, "write": []any{"out"}, "network": "proxy", "domains": []any{"example.com"}},
		"limits": object{
			"runTimeout": "1m0s", "llmIdleTimeout": "30s", "toolTimeout": "20s", "maxToolOutputBytes": 6000.0, "mcpConnectTimeout": "5s",
			"mcpStartTimeout": "10m0s", "maxResponseBytes": 3145728.0,
		},
	}
	referred := []string{"id", "name", "provider", "systemPromptFile", "mcpServers", "datasets", "customTools", "skillArchives", "hub"}
	requireEvery[agent.Agent](t, body, referred...)
	requireEvery[agent.Subagent](t, body["subagents"].(object)["reviewer"].(object))
	requireEvery[agent.Sandbox](t, body["sandbox"].(object))
	requireEvery[agent.AgentLimits](t, body["limits"].(object))
	return body
}

// everyServer returns MCP servers that have every setting together.
func everyServer(t *testing.T) []object {
	t.Helper()
	all := []object{
		{"name": "web", "transport": "http", "url": "https://mcp.example", "headers": object{"X-Key": "planted-h"}, "timeout": "5m0s", "instructions": true,
			"oauth": object{"clientId": "hub", "clientSecret": "planted-o", "issuer": "https://login.example", "scope": "tools/read tools/write", "audience": "tools"}},
		{"name": "files", "transport": "stdio", "command": "mcp-files", "args": []any{"/srv", "${X}"}, "env": object{"TOKEN": "planted-${e}", "EMPTY": ""}, "cwd": "files",
			"sandbox": object{"read": []any{"/srv"}}},
	}
	together := maps.Clone(all[0])
	maps.Copy(together, all[1])
	requireEvery[agent.MCPServer](t, together)
	requireEvery[agent.OAuth](t, together["oauth"].(object))
	return all
}

// requireEvery requires that a body has every field of a struct of the runtime, so that no new one
// is forgotten.
func requireEvery[T any](t *testing.T, body object, except ...string) {
	t.Helper()
	for field := range reflect.TypeFor[T]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if !slices.Contains(except, name) {
			require.Contains(t, body, name, "the new setting of %s needs a value here", reflect.TypeFor[T]())
		}
	}
}

func TestEverySettingReachesTheRuntime(t *testing.T) {
	each(t, nil, func(t *testing.T, s *server) {
		servers := everyServer(t)
		for _, body := range servers {
			s.ada.Post(mcps, body).Want(http.StatusCreated)
		}
		s.ada.Post(knowledge, object{"name": "handbook", "datasetId": "hb", "description": "The handbook"}).Want(http.StatusCreated)
		body := with(everySetting(t), "name", "coder", "title", "Coder", "providerId", provided(t, s, object{"protocol": "openai", "apiKey": "planted-k"}),
			"mcps", []any{"files", "web"}, "knowledge", []any{"handbook"}, "tools", []any{"Read"})
		made := s.ada.Post(agents, body).Want(http.StatusCreated)
		for _, read := range []object{made, s.ada.Get("/api/v1/agents/coder").Want(http.StatusOK), s.ada.Get(agents).Items()[0]} {
			for name, want := range everySetting(t) {
				require.Equal(t, want, read[name], name)
			}
		}
		for i, list := range s.ada.Get(mcps).Items() { // sorted by name
			masked := with(servers[1-i])
			for _, name := range []string{"env", "headers"} {
				for key := range fieldsOf(masked[name]) {
					masked[name] = with(masked[name].(object), key, "***")
				}
			}
			if masked["oauth"] != nil {
				masked["oauth"] = with(masked["oauth"].(object), "clientSecret", "***")
			}
			for _, read := range []object{list, s.bob.Get(mcps + "/" + list["name"].(string)).Want(http.StatusOK)} {
				for name, want := range masked {
					require.Equal(t, want, read[name], name)
				}
			}
			// What was read can be sent back.
			require.EqualValues(t, 1, s.ada.Put(mcps+"/"+list["name"].(string), list).Want(http.StatusOK)["version"])
		}
		require.EqualValues(t, 1, s.ada.Put(agents+"/coder", made).Want(http.StatusOK)["version"])

		var want agent.Agent
		decode(t, everySetting(t), &want)
		want.ID, want.Name = "coder", "Coder"
		want.MCPServers = map[string]agent.MCPServer{}
		for _, body := range servers {
			var server agent.MCPServer
			require.NoError(t, agent.DecodeForm(encode(t, body), &server))
			want.MCPServers[body["name"].(string)] = server
		}
		web := want.MCPServers["web"]
		web.Args = []string{}
		want.MCPServers["web"] = web
		want.Provider = agent.Provider{Protocol: "openai", BaseURL: "https://api.openai.com/v1", APIKey: "planted-k", AuthStyle: "bearer"}
		want.Datasets = map[string]string{"hb": "The handbook"}
		got, err := s.Deployment(t.Context(), "acme", "coder")
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.NoError(t, got.Validate())
		require.NoError(t, got.Check())

		// A change of a setting is a change of the content and in the audit log, without secrets.
		changed := s.ada.Put(agents+"/coder", with(body, "temperature", 1, "limits", object{"runTimeout": "2m"}, "outputSchema", object{"type": "object"})).Want(http.StatusOK)
		require.NotEqual(t, made["contentHash"], changed["contentHash"])
		s.ada.Put(mcps+"/web", with(servers[0], "timeout", "6m", "oauth", object{"clientId": "hub", "clientSecret": "planted-new"})).Want(http.StatusOK)
		require.NotEqual(t, changed["contentHash"], s.ada.Get(agents + "/coder").Want(http.StatusOK)["contentHash"])
		log := strings.Join(s.Audit("acme"), "\n")
		for _, part := range []string{
			`"temperature: 0"`, `"outputSchema: `, `"limits.runTimeout: 2m0s"`, `"timeout: 6m0s"`, `"oauth.clientSecret: ***"`, `"values":["oauth.clientSecret"]`,
		} {
			require.Contains(t, log, part)
		}
		require.NotContains(t, log, "planted")

		// Secrets are sealed, and can be sealed with a new key.
		var stored string
		require.NoError(t, s.db.Read().QueryRowContext(t.Context(), `SELECT settings || secrets FROM mcps WHERE name = 'web'`).Scan(&stored))
		require.Contains(t, stored, "oauth.clientSecret")
		require.NotContains(t, stored, "planted")
		before, err := s.Deployment(t.Context(), "acme", "coder")
		require.NoError(t, err)
		require.Equal(t, agent.Secret("planted-new"), before.MCPServers["web"].OAuth.ClientSecret)
		_, err = s.db.Write().ExecContext(t.Context(), `UPDATE mcps SET secrets = '{"oauth.clientSecret":"AAAA"}' WHERE name = 'web'`)
		require.NoError(t, err)
		_, err = s.Deployment(t.Context(), "acme", "coder")
		require.ErrorContains(t, err, "oauth.clientSecret")
	})
}

// All faults of a form are reported together: those of its types, of its values and of what it
// refers to.
func TestAllFaultsOfAnAgentAtOnce(t *testing.T) {
	each(t, nil, func(t *testing.T, s *server) {
		values := object{
			"name": "A", "model": "", "providerId": "none", "temperature": 3, "thinking": object{"effort": "low"}, "maxOutputTokens": -1, "mcps": []any{"none"},
			"limits": object{"runTimeout": "-1s"}, "extraUserSkillDirs": []any{"skills"}, "commandEnv": object{"A-B": "x"}, "allowedTools": []any{"Bash(git *"}, "systemPromptFile": "x.md",
			"outputSchema": object{"$ref": "http://127.0.0.1:1/"},
			"mcpServers":   object{}, "customTools": []any{object{"path": "x"}}, "maxTurns": 0, "approvers": "member",
		}
		faults(t, s.ada.Post(agents, values), "name", "model", "providerId", "temperature", "thinking.effort", "maxOutputTokens", "mcps[0]", "limits.runTimeout",
			"extraUserSkillDirs[0]", "commandEnv.A-B", "outputSchema", "allowedTools[0]", "systemPromptFile", "mcpServers", "customTools", "maxTurns", "approvers")
		types := s.ada.Post(agents, object{
			"name": 1, "model": []any{}, "providerId": "demo", "temperature": "hot", "limits": object{"runTimeout": 5}, "tools": object{}, "knowledge": []any{1},
			"enabled": "yes", "permissionMode": "root", "approvers": []any{},
		}).Error(http.StatusBadRequest, wire.InvalidRequest)["data"].(object)["fields"].(object)
		require.ElementsMatch(t, []string{"name", "model", "temperature", "limits.runTimeout", "tools", "knowledge[0]", "enabled", "permissionMode", "approvers"},
			slices.Collect(maps.Keys(types)))
		require.Equal(t, "must be a number, not a string", types["temperature"])
		s.ada.Post(agents, "x").Error(http.StatusBadRequest, wire.InvalidRequest)
		s.ada.Post(agents, demo("a")).Want(http.StatusCreated)
		s.ada.Put(agents+"/a", object{"model": 1, "providerId": "none"}).Error(http.StatusBadRequest, wire.InvalidRequest)

		text := "auth: {apiKey: x}\nlimits: {maxConcurrentRuns: 1, runTimeout: 1m}\nstateDir: x\nstoreOnRequest: true\nagents:\n- id: A\n  model: 1\n  temperature: 3\n  provider: {protocol: openai, baseUrl: https://none.example}\n" +
			"  systemPromptFile: x.md\n  skillArchives: [{name: a, url: u, hash: x}]\n  unknown: 1\n  mcpServers: {none: {transport: stdio, command: x}}\n" +
			"  datasets: {d: x}\n  allowedTools: ['Bash(git *']\n  hub: {skills: [none], tools: [None], approvers: Admin}\n"
		fields := s.importYAML(text, "").Error(http.StatusUnprocessableEntity, code.ArtifactInvalid)["data"].(object)["fields"].(object)
		require.ElementsMatch(t, []string{
			"auth", "limits.maxConcurrentRuns", "stateDir", "storeOnRequest", "agents[0].id", "agents[0].model", "agents[0].temperature", "agents[0].provider",
			"agents[0].systemPromptFile", "agents[0].skillArchives", "agents[0].skillArchives[0].hash", "agents[0].unknown", "agents[0].datasets.d", "mcps[0]",
			"allowedTools[0]", "skills[0]", "tools[0]", "approvers",
		}, slices.Collect(maps.Keys(fields)), fields)
	})
}

// Each example of a configuration is imported and exported with all of its settings. What a hub
// cannot have is named.
func TestExamplesAreImportedAndExported(t *testing.T) {
	t.Parallel()
	s := open(t, dbtest.SQLite(t, series...), nil)
	examples := 0
	for _, name := range []string{"../../../runtime/agent/testdata/full.yaml", "../../../README.md", "../../../cmd/runtime/README.md"} {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		blocks := []string{string(text)}
		if strings.HasSuffix(name, ".md") {
			blocks = nil
			for _, block := range strings.Split(string(text), "```yaml\n")[1:] {
				block, _, _ = strings.Cut(block, "```")
				blocks = append(blocks, block)
			}
		}
		for _, block := range blocks {
			file, err := agent.Parse("agents.yaml", []byte(block), func(string) (string, bool) { return "team", true })
			if err != nil {
				require.NotContains(t, block, "agents:\n", "an example that is not a part of a file")
				continue
			}
			for _, d := range file.Agents {
				examples++
				roundTrip(t, s, d)
			}
		}
	}
	require.Equal(t, 4, examples)
}

// roundTrip imports and exports an agent. The components that it names are created before, from the
// same JSON.
func roundTrip(t *testing.T, s *server, d agent.Agent) {
	t.Helper()
	if d.SystemPromptFile != "" {
		d.SystemPromptFile, d.SystemPrompt = "", "its text"
	}
	d.ExtraUserSkillDirs = slices.DeleteFunc(d.ExtraUserSkillDirs, func(dir string) bool { return dir[0] != '/' })
	if d.Provider.Protocol != agent.ProtocolDemo {
		provided(t, s, with(fieldsOf(d.Provider), "apiKey", "k"))
	}
	for name, server := range d.MCPServers {
		s.ada.Post(mcps, with(fieldsOf(server), "name", name)).Want(http.StatusCreated)
	}
	for id := range d.Datasets {
		s.ada.Post(knowledge, object{"name": "set-" + strings.ToLower(id), "datasetId": id}).Want(http.StatusCreated)
	}
	for i := range d.CustomTools {
		tool := &d.CustomTools[i]
		if *tool = (agent.CustomTool{Path: "x.ts", Name: tool.Name}); tool.Name == "" {
			tool.Name = "tool_b"
		}
		if s.ada.Get(tools+"/"+tool.Name).Status == http.StatusNotFound {
			send(t, s.ada, http.MethodPost, tools, "x.ts", named(tool.Name)).Want(http.StatusCreated)
		}
	}
	text, err := yaml.Marshal(agent.File{Agents: []agent.Agent{d}})
	require.NoError(t, err)
	made := s.importYAML(string(text), "").Want(http.StatusCreated)
	exported := s.ada.Get(agents + "/" + d.ID + "/export").Text
	file, err := agent.Parse("agents.yaml", []byte(exported), func(string) (string, bool) { return "v", true })
	require.NoError(t, err, exported)
	got := file.Agents[0]

	// Secrets are variables, and defaults are written out.
	require.Len(t, got.Datasets, len(d.Datasets))
	for id, description := range d.Datasets {
		require.Equal(t, description, got.Datasets[id])
	}
	require.Len(t, got.CustomTools, len(d.CustomTools))
	got.Hub, got.CustomTools, got.Datasets = nil, nil, nil
	d.CustomTools, d.Datasets = nil, nil
	d.Name = made["title"].(string)
	d.MaxTurns, d.SettingSources = d.TurnLimit(), d.SkillSources()
	for _, value := range []*agent.Agent{&d, &got} {
		value.Provider.APIKey, value.Provider.AuthStyle = "", ""
		if value.Provider.Protocol == agent.ProtocolAnthropic && value.Provider.BaseURL == "" || value.Provider.BaseURL == "https://api.anthropic.com" {
			value.Provider.BaseURL = ""
		}
		value.PermissionMode = strings.TrimPrefix(value.PermissionMode, "default")
		*value = settings.Mask(*value)
	}
	require.Equal(t, clean(t, d), clean(t, got))

	again := s.importYAML(exported, "?replace=true").Want(http.StatusOK) // tools may be in another order
	require.Equal(t, made["contentHash"], again["contentHash"])
	s.ada.Delete(agents + "/" + d.ID).Want(http.StatusNoContent)
	for name := range d.MCPServers {
		s.ada.Delete(mcps + "/" + name).Want(http.StatusNoContent)
	}
	for _, set := range s.ada.Get(knowledge).Items() {
		s.ada.Delete(knowledge + "/" + set["name"].(string)).Want(http.StatusNoContent)
	}
}

// provided creates a provider and returns its id.
func provided(t *testing.T, s *server, body object) string {
	t.Helper()
	in, err := json.Marshal(with(body, "name", ids.New()))
	require.NoError(t, err)
	var input provider.Input
	require.NoError(t, json.Unmarshal(in, &input))
	p, err := s.providers.CreateProvider(t.Context(), s.ada.Caller, input)
	require.NoError(t, err)
	return p.ID
}

// clean returns the JSON of an agent without empty lists and maps.
func clean(t *testing.T, a agent.Agent) object {
	t.Helper()
	var drop func(v any) any
	drop = func(v any) any {
		if fields, ok := v.(map[string]any); ok {
			for name, value := range fields {
				if fields[name] = drop(value); reflect.ValueOf(fields[name]).Kind() >= reflect.Map && reflect.ValueOf(fields[name]).Len() == 0 {
					delete(fields, name)
				}
			}
		}
		return v
	}
	return drop(map[string]any(fieldsOf(a))).(map[string]any)
}

func fieldsOf(v any) object {
	text, _ := json.Marshal(v)
	var fields object
	_ = json.Unmarshal(text, &fields)
	return fields
}

func encode(t *testing.T, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return text
}

func decode(t *testing.T, body object, into any) {
	t.Helper()
	require.NoError(t, agent.DecodeForm(encode(t, body), into))
}
