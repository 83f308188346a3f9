package agent_test

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/agentvalue"
	"github.com/seed93082962/agenthost/runtime/agent"
)

func demo() agent.Agent {
	return agent.Agent{ID: "a", Model: "m", Provider: agent.Provider{Protocol: agent.ProtocolDemo}}
}

// Agents built in Go have the rules of files, without lines. A zero value is the default, if there
// is one.
func TestValidate(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*agent.Agent)
		want   string
	}{
		{"nothing", func(a *agent.Agent) { *a = agent.Agent{} }, "id: is missing\nmodel: is missing\nprovider: is missing"},
		{"provider without protocol", func(a *agent.Agent) { a.Provider = agent.Provider{APIKey: "k"} },
			"provider.protocol: is missing"},
		{"id", func(a *agent.Agent) { a.ID = "a--b" },
			`id: "a--b" must consist of lower-case letters and digits with single hyphens between them, at most 63 characters`},
		{"turns", func(a *agent.Agent) { a.MaxTurns = -1 }, "maxTurns: must be greater than zero"},
		{"temperature", func(a *agent.Agent) { a.Temperature = new(math.NaN()) }, "temperature: must be from 0 to 2"},
		{"two prompts", func(a *agent.Agent) { a.SystemPrompt, a.SystemPromptFile = "a", "b" },
			"systemPromptFile: cannot be combined with systemPrompt"},
		{"mode", func(a *agent.Agent) { a.PermissionMode = "x" },
			`permissionMode: "x" is not one of default, acceptEdits, bypassPermissions, plan, dontAsk, auto`},
		{"servers in order of their names", func(a *agent.Agent) {
			a.MCPServers = map[string]agent.MCPServer{"b": {}, "a": {Transport: "http"}, "c d": {Transport: "stdio", Command: "x"}}
		}, "mcpServers.a.url: is missing\nmcpServers.b.transport: is missing\n" + `mcpServers["c d"]: a name must consist of letters, digits, hyphens and single underscores between them`},
		{"sandbox", func(a *agent.Agent) {
			a.Sandbox = agent.Sandbox{
				Mode: "on", Read: []string{"", "a\x00b", strings.Repeat("a", 4096)}, Write: make([]string, 101), Network: "some",
				Domains: []string{"example.com", "https://example.com", "example.com:0"},
			}
		}, `sandbox.mode: "on" is not one of auto, required, off
sandbox.network: "some" is not one of proxy, none, all
sandbox.read[0]: must not be empty
sandbox.read[1]: must not contain a null byte
sandbox.read[2]: must have at most 4095 bytes
sandbox.write: must have at most 100 entries
sandbox.domains[1]: domain "https://example.com": the port is not a number from 1 to 65535
sandbox.domains[2]: domain "example.com:0": the port is not a number from 1 to 65535`},
		{"environment of commands", func(a *agent.Agent) {
			a.CommandEnv = map[string]agent.Secret{"A_1": "x", "1A": "x", "A B": "", "N": "a\x00b"}
		}, `commandEnv.1A: must have a name of letters, digits and underscores
commandEnv["A B"]: must have a name of letters, digits and underscores
commandEnv.N: must not contain a null byte`},
		{"a large environment", func(a *agent.Agent) {
			a.CommandEnv = map[string]agent.Secret{"A": agent.Secret(strings.Repeat("a", 64<<10))}
		}, "commandEnv: must have at most 100 variables and 65536 bytes"},
		{"domains without a proxy", func(a *agent.Agent) {
			a.Sandbox = agent.Sandbox{Network: agentvalue.NetworkNone, Domains: []string{"example.com"}}
		}, "sandbox.domains: has no effect with network: none"},
		{"sandbox of servers", func(a *agent.Agent) {
			a.MCPServers = map[string]agent.MCPServer{
				"a": {Transport: "stdio", Command: "x", Sandbox: agent.Sandbox{Mode: agentvalue.SandboxOff, Network: "x"}},
				"b": {Transport: "http", URL: "https://m.example", Sandbox: agent.Sandbox{Read: []string{"x"}}},
			}
		}, `mcpServers.a.sandbox.mode: is that of the agent, and cannot be set for a server
mcpServers.a.sandbox.network: "x" is not one of proxy, none, all
mcpServers.b.sandbox: has no effect with transport http`},
		{"subagent without name", func(a *agent.Agent) {
			a.Subagents = map[string]agent.Subagent{"": {Description: "d", Prompt: "p"}}
		}, `subagents[""]: a name must not be empty`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := demo()
			tc.change(&a)
			require.EqualError(t, a.Validate(), tc.want)
		})
	}
	a := demo()
	require.NoError(t, a.Validate())
}

func TestValidateFile(t *testing.T) {
	require.EqualError(t, (&agent.File{}).Validate(), "agents: is missing")
	require.NoError(t, (&agent.File{Agents: []agent.Agent{}}).Validate())
	require.NoError(t, fullFile().Validate())
	twins := agent.File{
		Auth:   agent.Auth{APIKeys: []agent.Secret{"a", "", "b"}},
		Limits: agent.Limits{RunTimeout: -1},
		Sandbox: agent.SandboxSettings{Limits: agent.SandboxLimits{
			MaxMemoryBytes: -1, MaxProcesses: -1, MaxAddressSpaceBytes: -1, MaxOpenFiles: -1, MaxFileBytes: -1,
		}},
		Agents: []agent.Agent{demo(), demo(), {}, {}},
	}
	require.EqualError(t, twins.Validate(), `auth.apiKey[1]: must not be empty
limits.runTimeout: must be greater than zero
sandbox.limits.maxMemoryBytes: must be greater than zero
sandbox.limits.maxProcesses: must be greater than zero
sandbox.limits.maxAddressSpaceBytes: must be greater than zero
sandbox.limits.maxOpenFiles: must be greater than zero
sandbox.limits.maxFileBytes: must be greater than zero
agents[1].id: "a" is already the id of agents[0]
agents[2].id: is missing
agents[2].model: is missing
agents[2].provider: is missing
agents[3].id: is missing
agents[3].model: is missing
agents[3].provider: is missing`)
}

func TestIDs(t *testing.T) {
	for id, ok := range map[string]bool{
		"a": true, "0": true, "a-b": true, "a1-2b-c": true, "aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffffggg": true,
		"-a": false, "a-": false, "a--b": false, "A": false, "a_b": false, "a.b": false, "é": false, "a\n": false, " a": false,
		"a/b": false,
	} {
		t.Run(id, func(t *testing.T) {
			a := demo()
			a.ID = id
			require.Equal(t, ok, a.Validate() == nil)
		})
	}
}

// Validate does not report the faults of Check.
func TestCheck(t *testing.T) {
	const address = "must be an http or https address without a user and a password: send them in headers"
	for _, tc := range []struct {
		name   string
		change func(*agent.Agent)
		want   string
	}{
		{"protocol", func(a *agent.Agent) { a.Provider.Protocol = "grpc" },
			`provider.protocol: "grpc" is not one of anthropic, openai, demo`},
		{"auth style", func(a *agent.Agent) { a.Provider.AuthStyle = "basic" },
			`provider.authStyle: "basic" is not one of api_key, bearer, none`},
		{"base url", func(a *agent.Agent) { a.Provider.BaseURL = "host/v1" }, `provider.baseUrl: must be an http or https address`},
		{"base url without host", func(a *agent.Agent) { a.Provider.BaseURL = "https:///v1" },
			`provider.baseUrl: must be an http or https address`},
		{"base url that does not parse", func(a *agent.Agent) { a.Provider.BaseURL = "http://a b" },
			`provider.baseUrl: must be an http or https address`},
		{"address of an MCP server with a password", func(a *agent.Agent) {
			a.MCPServers = map[string]agent.MCPServer{
				"a": {Transport: "http", URL: "https://m.example/@user?a=b@c"},
				"b": {Transport: "http", URL: "https://user:secret@m.example"},
				"c": {Transport: "sse", URL: "https://@m.example"},
				"d": {Transport: "sse", URL: "https://[::1]@user:secret/"},
			}
		}, "mcpServers.b.url: " + address + "\nmcpServers.c.url: " + address + "\nmcpServers.d.url: " + address},
		{"servers of a subagent", func(a *agent.Agent) {
			a.MCPServers = map[string]agent.MCPServer{"s": {Transport: "stdio", Command: "x"}}
			a.Subagents = map[string]agent.Subagent{"r": {Description: "d", Prompt: "p", MCPServers: []string{"s", "t"}}}
		}, `subagents.r.mcpServers[1]: "t" is not in mcpServers`},
		{"rules of tools", func(a *agent.Agent) {
			a.AllowedTools = []string{"Read", "Bash(git *", "mcp__files", "Bash()"}
			a.DisallowedTools = []string{"WebFetch(example.com)"}
			a.Subagents = map[string]agent.Subagent{"r": {Description: "d", Prompt: "p", Tools: []string{"*"}, DisallowedTools: []string{"Read(["}}}
		}, `allowedTools[1]: "Bash(git *" is not a rule: the last character must be the closing parenthesis
allowedTools[3]: "Bash()" is not a rule: its pattern is empty: to match every input, remove the parentheses
disallowedTools[0]: "WebFetch(example.com)" is not a rule: a WebFetch pattern is domain:example.com, domain:*.example.com or domain:*
subagents.r.tools[0]: "*" is not a rule: a tool name contains * only at the end of mcp__server__*
subagents.r.disallowedTools[0]: "Read([" is not a rule: the last character must be the closing parenthesis`},
		{"hash", func(a *agent.Agent) {
			a.CustomTools = []agent.CustomTool{{Path: "p"}, {Name: "n", URL: "u", Hash: "md5:00"}}
		}, "customTools[1].hash: must be sha256: and 64 lower-case hex digits"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := demo()
			tc.change(&a)
			require.NoError(t, a.Validate())
			require.EqualError(t, a.Check(), tc.want)
		})
	}
	a := demo()
	a.Provider = agent.Provider{Protocol: "openai", BaseURL: "http://127.0.0.1:11434/v1/", AuthStyle: "none"}
	require.NoError(t, a.Check())
}

func TestDefaults(t *testing.T) {
	a := demo()
	require.Equal(t, 10, a.TurnLimit())
	require.Equal(t, []string{"user", "project"}, a.SkillSources())
	a.MaxTurns, a.SettingSources = 3, []string{}
	require.Equal(t, 3, a.TurnLimit())
	require.Empty(t, a.SkillSources())
	a.SettingSources = []string{"project"}
	a.SkillSources()[0] = "user"
	require.Equal(t, []string{"project"}, a.SettingSources)
}
