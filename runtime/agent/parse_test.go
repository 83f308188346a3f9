package agent_test

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/seed93082962/agenthost/internal/agentvalue"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// full has every key, and fullFile is its value.
func fullFile() *agent.File {
	temperature := 0.2
	return &agent.File{
		Auth:           agent.Auth{APIKeys: []agent.Secret{"first", "second", "sk-team"}},
		CWD:            "/srv/work",
		AgentHome:      ".agents",
		StateDir:       "/var/lib/agents",
		StoreOnRequest: true,
		Limits: agent.Limits{
			MaxConcurrentRuns: 10, RunTimeout: time.Hour, LLMIdleTimeout: time.Minute, ToolTimeout: 90 * time.Second,
			MaxToolOutputBytes: 5000, MCPConnectTimeout: 1500 * time.Millisecond, MCPStartTimeout: time.Minute, MaxMessageBytes: 1 << 20,
			MaxResponseBytes: 2 << 20, MaxMemoryBytes: 1 << 30, SessionTTL: 24 * time.Hour,
		},
		Sandbox: agent.SandboxSettings{Limits: agent.SandboxLimits{
			MaxMemoryBytes: 1 << 30, MaxProcesses: 100, MaxAddressSpaceBytes: 8 << 30, MaxOpenFiles: 256, MaxFileBytes: 1 << 20,
		}},
		Agents: []agent.Agent{{
			ID: "coder", Name: "Coder 😀", Description: "Writes code", Model: "claude-sonnet-4-5",
			Provider: agent.Provider{Protocol: "anthropic", BaseURL: "https://sk-team.example", APIKey: "sk-team",
				AuthStyle: "bearer"},
			MaxOutputTokens: 8192, ContextWindow: 200_000, Temperature: &temperature, Thinking: agent.Thinking{BudgetTokens: 1024},
			SystemPrompt: "You write code.\n  Mind the ${TEAM_KEY}.\n", MaxTurns: 20, PermissionMode: "acceptEdits",
			AllowedTools: []string{"Read", "Bash(git *)"}, DisallowedTools: []string{},
			SettingSources: []string{"user", "local"}, ExtraUserSkillDirs: []string{"/srv/skills"},
			Sandbox: agent.Sandbox{Mode: agentvalue.SandboxRequired, Read: []string{"/srv/data", "../common"}, Write: []string{"out"},
				Network: agentvalue.NetworkProxy, Domains: []string{"example.com", "*.example.org", "example.net:8443"}},
			CommandEnv: map[string]agent.Secret{"GIT_AUTHOR_NAME": "Coder", "TOKEN": "sk-team"},
			MCPServers: map[string]agent.MCPServer{
				"files": {Transport: "stdio", Command: "mcp-files", Timeout: 5 * time.Minute, Instructions: true, Args: []string{"--root", "${TEAM_KEY}", "a", "${env:TOKEN}"},
					Env:     map[string]agent.Secret{"TOKEN": "sk-team", "LITERAL": "${TEAM_KEY}", "NOTHING": "", "ONCE": "${TEAM_KEY}"},
					Sandbox: agent.Sandbox{Read: []string{"/srv/files"}, Network: agentvalue.NetworkNone, Domains: []string{}}},
				"web": {Transport: "http", URL: "https://mcp.example/",
					Headers: map[string]agent.Secret{"Authorization": "Bearer sk-team"},
					OAuth:   agent.OAuth{ClientID: "hosts", ClientSecret: "sk-team", Issuer: "https://login.example", Scope: "tools/read tools/write", Audience: "tools"}},
				"bare": {Transport: "sse", URL: "https://sse.example/", Headers: map[string]agent.Secret{}},
			},
			Limits: agent.AgentLimits{
				RunTimeout: time.Minute, LLMIdleTimeout: 30 * time.Second, ToolTimeout: 20 * time.Second, MaxToolOutputBytes: 6000,
				MCPConnectTimeout: 5 * time.Second, MCPStartTimeout: 10 * time.Minute, MaxResponseBytes: 3 << 20,
			},
			Subagents: map[string]agent.Subagent{"reviewer": {
				Description: "Reviews", Prompt: "Review.", Tools: []string{"Read"}, DisallowedTools: []string{"Bash"},
				Model: "small", MCPServers: []string{"files"}, Skills: []string{}, MaxTurns: 5,
			}},
			OutputSchema: json.RawMessage(`{"type":"object","properties":{"sum":{"type":"number","minimum":-1500},` +
				`"by":{"const":9007199254740993,"title":"a \u003c b é"}},"additionalProperties":false}`),
			Datasets: map[string]string{"handbook": "The staff handbook", "2024": "Last year"},
			CustomTools: []agent.CustomTool{
				{Name: "word_count", URL: "https://cdn.example/x", Hash: "sha256:00", FileName: "word_count.ts"},
				{Path: "tools/b.ts"},
			},
		}, {
			ID: "small-1", Model: "demo", Provider: agent.Provider{Protocol: "demo"},
			AllowedTools: []string{}, SettingSources: []string{}, Datasets: map[string]string{},
			MCPServers: map[string]agent.MCPServer{}, Subagents: map[string]agent.Subagent{}, CustomTools: []agent.CustomTool{},
		}},
	}
}

func TestParse(t *testing.T) {
	for _, name := range []string{"full.yaml", "full.json"} {
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile("testdata/" + name)
			require.NoError(t, err)
			f, err := agent.Parse(name, data, env)
			require.NoError(t, err)
			require.Equal(t, fullFile(), f)
		})
	}
}

func TestMarshalAndParse(t *testing.T) {
	for _, tc := range []struct {
		name    string
		marshal func(any) ([]byte, error)
	}{{"f.json", json.Marshal}, {"f.yaml", yaml.Marshal}} {
		t.Run(tc.name, func(t *testing.T) {
			data, err := tc.marshal(fullFile())
			require.NoError(t, err)
			f, err := agent.Parse(tc.name, data, nil)
			require.NoError(t, err)
			require.Equal(t, fullFile(), f)

			one, err := tc.marshal(fullFile().Agents[1])
			require.NoError(t, err)
			require.NotContains(t, string(one), "thinking")
			require.Contains(t, string(one), "allowedTools")
		})
	}
	t.Run("decoded without Parse", func(t *testing.T) {
		data, err := json.Marshal(fullFile())
		require.NoError(t, err)
		f := new(agent.File)
		require.NoError(t, json.Unmarshal(data, f))
		require.Equal(t, fullFile(), f)
	})
}

func TestLanguage(t *testing.T) {
	small := &agent.File{Agents: []agent.Agent{{ID: "a", Model: "m", Provider: agent.Provider{Protocol: "demo"}}}}
	const body = `{"agents": [{"id": "a", "model": "m", "provider": {"protocol": "demo"}}]}`
	for _, tc := range []struct {
		name, file, data string
	}{
		{"YAML", "f.yaml", valid},
		{"JSON", "f.json", body},
		{"JSON, ending in capitals", "F.JSON", body},
		{"JSON in a YAML file", "f.yaml", body},
		{"JSON without a name", "", "\n" + body},
		{"JSON escapes that YAML refuses", "f.yaml",
			`{"agents": [{"id": "\u0061", "model": "m", "provider": {"protocol": "demo"}}], "cwd": "\ud83d\ude00"}`},
		{"YAML that begins like JSON", "", "{agents: [{id: a, model: m, provider: {protocol: demo}}]}"},
		{"byte order mark", "f.yaml", "\ufeff" + valid},
		{"byte order mark before JSON", "f.json", "\ufeff" + body},
		{"line ends of Windows", "f.yaml", "agents:\r\n- id: a\r\n  model: m\r\n  provider: {protocol: demo}\r\n"},
		{"one document with marks", "f.yaml", "%YAML 1.1\n---\n" + valid + "...\n"},
		{"aliases", "f.yaml", "agents:\n- id: &x a\n  model: m\n  provider: {protocol: demo}\ncwd: *x\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f, err := agent.Parse(tc.file, []byte(tc.data), nil)
			require.NoError(t, err)
			f.CWD = ""
			require.Equal(t, small, f)
		})
	}
}

func TestYAMLValues(t *testing.T) {
	f, err := agent.Parse("f.yaml", []byte(`
agents:
- &base
  id: a
  model: no                     # a boolean only for YAML 1.1
  name: 2024-01-01              # not a time
  provider: &p {protocol: demo}
  maxTurns: 0x10
  contextWindow: 200_000
  temperature: 1
- {<<: *base, id: b, maxTurns: 3}
- {<<: [{model: first}, *base], id: c}
`), nil)
	require.NoError(t, err)
	a, b, c := f.Agents[0], f.Agents[1], f.Agents[2]
	require.Equal(t, []string{"no", "2024-01-01"}, []string{a.Model, a.Name})
	require.Equal(t, []int{16, 200_000}, []int{a.MaxTurns, a.ContextWindow})
	require.Equal(t, 1.0, *a.Temperature)
	require.Equal(t, []any{"b", "no", 3, "demo"}, []any{b.ID, b.Model, b.MaxTurns, b.Provider.Protocol})
	require.Equal(t, []any{"c", "first", 16}, []any{c.ID, c.Model, c.MaxTurns})
	require.NotSame(t, a.Temperature, b.Temperature)
}

func TestAuthKeys(t *testing.T) {
	for _, tc := range []struct {
		name, value string
		want        []agent.Secret
	}{
		{"one", "'k'", []agent.Secret{"k"}},
		{"commas", "'a, b,c'", []agent.Secret{"a", "b", "c"}},
		{"commas from the environment", "'${KEYS}'", []agent.Secret{"one", "two"}},
		{"list", "[a, '${TEAM_KEY}']", []agent.Secret{"a", "sk-team"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f, err := agent.Parse("f.yaml", []byte("agents: []\nauth: {apiKey: "+tc.value+"}"), env)
			require.NoError(t, err)
			require.Equal(t, tc.want, f.Auth.APIKeys)
		})
	}
}

func TestRelativeTo(t *testing.T) {
	f := &agent.File{CWD: ".", StateDir: "../state", Agents: []agent.Agent{
		{SystemPromptFile: "p/a.md", CustomTools: []agent.CustomTool{{Path: "../t.ts"}, {Path: "/abs/t.ts"}, {URL: "u"}}},
		{SystemPromptFile: "/abs/p.md", ExtraUserSkillDirs: []string{"skills", "/abs/skills", ""}},
		{MCPServers: map[string]agent.MCPServer{"own": {Command: "./command", Args: []string{"."}}}},
	}}
	f.RelativeTo("/etc/agents")
	require.Equal(t, &agent.File{CWD: "/etc/agents", StateDir: "/etc/state", Agents: []agent.Agent{
		{SystemPromptFile: "/etc/agents/p/a.md", CustomTools: []agent.CustomTool{{Path: "/etc/t.ts"}, {Path: "/abs/t.ts"}, {URL: "u"}}},
		{SystemPromptFile: "/abs/p.md", ExtraUserSkillDirs: []string{"/etc/agents/skills", "/abs/skills", ""}},
		{MCPServers: map[string]agent.MCPServer{"own": {Command: "./command", Args: []string{"."}}}},
	}}, f)

	f = &agent.File{CWD: "/abs", StateDir: ""}
	f.RelativeTo("/etc/agents")
	require.Equal(t, &agent.File{CWD: "/abs"}, f)
}
