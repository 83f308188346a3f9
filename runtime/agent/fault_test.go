package agent_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/agent"
)

// env is the environment of the tests.
func env(name string) (string, bool) {
	v, ok := map[string]string{"TEAM_KEY": "sk-team", "EMPTY": "", "NESTED": "${TEAM_KEY}", "KEYS": "one, two"}[name]
	return v, ok
}

// valid is an agent with all required settings. Rows add further settings of the agent.
const valid = "agents:\n- id: a\n  model: m\n  provider: {protocol: demo}\n"

func TestFaults(t *testing.T) {
	for _, tc := range []struct {
		name, file, want string
	}{
		{"agents missing", "cwd: /srv", "f.yaml:1: agents: is missing"},
		{"agents null", "agents:", "f.yaml:1: agents: must be a list, not null; omit the key if it is not needed"},
		{"agents a map", "agents: {a: 1}", "f.yaml:1: agents: must be a list, not a map"},
		{"agent a string", "agents:\n- a", "f.yaml:2: agents[0]: must be a map, not a string"},
		{"file a list", "- a", "f.yaml:1: must be a map, not a list"},
		{"file a string", "hello", "f.yaml:1: must be a map, not a string"},
		{"empty agent", "agents:\n- {}", "f.yaml:2: agents[0].id: is missing\nf.yaml:2: agents[0].model: is missing\nf.yaml:2: agents[0].provider: is missing"},
		{"empty provider", "agents:\n- id: a\n  model: m\n  provider: {}", "f.yaml:4: agents[0].provider.protocol: is missing"},
		{"provider a string", "agents:\n- id: a\n  model: m\n  provider: openai",
			"f.yaml:4: agents[0].provider: must be a map, not a string"},
		{"protocol a number", "agents:\n- id: a\n  model: m\n  provider: {protocol: 1}",
			"f.yaml:4: agents[0].provider.protocol: must be a string, not a number"},
		{"empty model", "agents:\n- id: a\n  model: ''\n  provider: {protocol: demo}", "f.yaml:3: agents[0].model: must not be empty"},
		{"model a number", "agents:\n- id: a\n  model: 4\n  provider: {protocol: demo}",
			"f.yaml:3: agents[0].model: must be a string, not a number"},
		{"model a boolean", "agents:\n- id: a\n  model: true\n  provider: {protocol: demo}",
			"f.yaml:3: agents[0].model: must be a string, not a boolean"},

		{"unknown key", valid + "  colour: red", "f.yaml:5: agents[0].colour: unknown key"},
		{"unknown key, near", valid + "  promt: x\n  permisionMode: plan",
			"f.yaml:5: agents[0].promt: unknown key\nf.yaml:6: agents[0].permisionMode: unknown key; did you mean permissionMode?"},
		{"unknown key, other case", "agents:\n- id: a\n  model: m\n  provider: {protocol: demo, base_url: x}",
			"f.yaml:4: agents[0].provider.base_url: unknown key; did you mean baseUrl?"},
		{"unknown key instead of a required one", "agents:\n- id: a\n  modle: m\n  provider: {protocol: demo}",
			"f.yaml:3: agents[0].modle: unknown key; did you mean model?"},
		{"unknown key at the top", "agent: []\nagents: []", "f.yaml:1: agent: unknown key; did you mean agents?"},
		{"unknown key with odd characters", valid + "  \"a.b c\": 1", `f.yaml:5: agents[0]["a.b c"]: unknown key`},
		{"key twice", valid + "  name: x\n  name: y", "f.yaml:6: agents[0].name: is repeated, first on line 5"},
		{"key of a map twice", valid + "  datasets:\n    d: x\n    d: y",
			"f.yaml:7: agents[0].datasets.d: is repeated, first on line 6"},

		{"id with capitals", "agents:\n- id: Coder\n  model: m\n  provider: {protocol: demo}",
			`f.yaml:2: agents[0].id: "Coder" must consist of lower-case letters and digits with single hyphens between them, at most 63 characters`},
		{"id too long", "agents:\n- id: " + strings.Repeat("a", 64) + "\n  model: m\n  provider: {protocol: demo}",
			`f.yaml:2: agents[0].id: "` + strings.Repeat("a",
				64) + `" must consist of lower-case letters and digits with single hyphens between them, at most 63 characters`},
		{"id twice", valid + "- id: a\n  model: m\n  provider: {protocol: demo}",
			`f.yaml:5: agents[1].id: "a" is already the id of agents[0]`},

		{"permission mode", valid + "  permissionMode: yolo",
			`f.yaml:5: agents[0].permissionMode: "yolo" is not one of default, acceptEdits, bypassPermissions, plan, dontAsk, auto`},
		{"permission mode empty", valid + "  permissionMode: ''",
			`f.yaml:5: agents[0].permissionMode: "" is not one of default, acceptEdits, bypassPermissions, plan, dontAsk, auto`},
		{"sandbox", valid + "  sandbox: {mode: '', read: /srv, network: '', domain: [x]}",
			`f.yaml:5: agents[0].sandbox.mode: "" is not one of auto, required, off
f.yaml:5: agents[0].sandbox.read: must be a list, not a string
f.yaml:5: agents[0].sandbox.network: "" is not one of proxy, none, all
f.yaml:5: agents[0].sandbox.domain: unknown key; did you mean domains?`},
		{"mode off is not a boolean", valid + "  sandbox: {mode: off, network: 1}", "f.yaml:5: agents[0].sandbox.network: must be a string, not a number"},
		{"sandbox a string", valid + "  sandbox: off", "f.yaml:5: agents[0].sandbox: must be a map, not a string"},
		{"limits of the sandbox", "sandbox: {limits: {maxProcesses: 0, maxFileBytes: 1g}}\n" + valid,
			"f.yaml:1: sandbox.limits.maxProcesses: must be greater than zero\nf.yaml:1: sandbox.limits.maxFileBytes: must be a whole number, not a string"},
		{"setting source", valid + "  settingSources: [user, global]",
			`f.yaml:5: agents[0].settingSources[1]: "global" is not one of user, project, local`},
		{"tools null: nobody can say whether that is all or none", valid + "  allowedTools:",
			"f.yaml:5: agents[0].allowedTools: must be a list, not null; omit the key if it is not needed"},
		{"tools a string", valid + "  allowedTools: Read", "f.yaml:5: agents[0].allowedTools: must be a list, not a string"},
		{"tool a number", valid + "  allowedTools:\n  - Read\n  - 1",
			"f.yaml:7: agents[0].allowedTools[1]: must be a string, not a number"},
		{"turns zero", valid + "  maxTurns: 0", "f.yaml:5: agents[0].maxTurns: must be greater than zero"},
		{"turns a fraction", valid + "  maxTurns: 1.5",
			"f.yaml:5: agents[0].maxTurns: must be a whole number of at most 9223372036854775807"},
		{"turns a string", valid + "  maxTurns: '10'", "f.yaml:5: agents[0].maxTurns: must be a whole number, not a string"},
		{"tokens negative", valid + "  maxOutputTokens: -1\n  contextWindow: 0",
			"f.yaml:5: agents[0].maxOutputTokens: must be greater than zero\nf.yaml:6: agents[0].contextWindow: must be greater than zero"},
		{"temperature", valid + "  temperature: 2.1", "f.yaml:5: agents[0].temperature: must be from 0 to 2"},
		{"temperature not a number", valid + "  temperature: .nan", "f.yaml:5: agents[0].temperature: must be from 0 to 2"},
		{"temperature null", valid + "  temperature: ~",
			"f.yaml:5: agents[0].temperature: must be a number, not null; omit the key if it is not needed"},
		{"thinking without budget", valid + "  thinking: {}", "f.yaml:5: agents[0].thinking.budgetTokens: is missing; a model that chooses the amount itself needs type: adaptive"},
		{"thinking of an unknown type", valid + "  thinking: {type: deep}", `f.yaml:5: agents[0].thinking.type: "deep" is not one of adaptive`},
		{"adaptive thinking with a budget", valid + "  thinking: {type: adaptive, budgetTokens: 9}",
			"f.yaml:5: agents[0].thinking.budgetTokens: has no effect with type: adaptive"},
		{"long effort", valid + "  thinking: {type: adaptive, effort: " + strings.Repeat("x", 65) + "}",
			"f.yaml:5: agents[0].thinking.effort: must have at most 64 bytes"},
		{"effort with a budget", valid + "  thinking: {budgetTokens: 9, effort: low}",
			"f.yaml:5: agents[0].thinking.effort: requires type: adaptive"},
		{"key header with another style", "agents:\n- id: a\n  model: m\n  provider: {protocol: openai, authStyle: bearer, apiKeyHeader: api-key}\n",
			"f.yaml:4: agents[0].provider.apiKeyHeader: has no effect with authStyle: bearer"},
		{"stream usage of anthropic", "agents:\n- id: a\n  model: m\n  provider: {protocol: anthropic, streamUsage: false}\n",
			"f.yaml:4: agents[0].provider.streamUsage: has no effect with protocol: anthropic"},
		{"thinking zero", valid + "  thinking: {budgetTokens: 0}",
			"f.yaml:5: agents[0].thinking.budgetTokens: must be greater than zero"},
		{"two prompts", valid + "  systemPromptFile: p.md\n  systemPrompt: hi",
			"f.yaml:5: agents[0].systemPromptFile: cannot be combined with systemPrompt"},

		{"server without transport", valid + "  mcpServers:\n    s: {env: {A: b}}",
			"f.yaml:6: agents[0].mcpServers.s.transport: is missing"},
		{"server with type and transport", valid + "  mcpServers:\n    s: {type: stdio, command: x,\n      transport: stdio}",
			"f.yaml:7: agents[0].mcpServers.s.transport: is repeated, first on line 6"},
		{"server, unknown type", valid + "  mcpServers:\n    s: {command: x,\n      type: tcp}",
			`f.yaml:7: agents[0].mcpServers.s.transport: "tcp" is not one of stdio, sse, http`},
		{"default with a variable", valid + "  mcpServers:\n    s: {command: x, env: {A: '${NOPE:-${B}}'}}",
			"f.yaml:6: agents[0].mcpServers.s.env.A: the default of ${NOPE} must not contain a variable"},
		{"server, unknown transport", valid + "  mcpServers:\n    s: {transport: tcp, command: x}",
			`f.yaml:6: agents[0].mcpServers.s.transport: "tcp" is not one of stdio, sse, http`},
		{"stdio without command", valid + "  mcpServers:\n    s: {transport: stdio}",
			"f.yaml:6: agents[0].mcpServers.s.command: is missing"},
		{"http without url", valid + "  mcpServers:\n    s: {transport: http}", "f.yaml:6: agents[0].mcpServers.s.url: is missing"},
		{"sse with an empty url", valid + "  mcpServers:\n    s: {transport: sse, url: ''}",
			"f.yaml:6: agents[0].mcpServers.s.url: must not be empty"},
		{"http with a directory", valid + "  mcpServers:\n    s: {transport: http, url: 'https://x', cwd: .}",
			"f.yaml:6: agents[0].mcpServers.s.cwd: has no effect with transport http"},
		{"fields of the other transport", valid + "  mcpServers:\n    s: {transport: stdio, command: x, headers: {a: b}}",
			"f.yaml:6: agents[0].mcpServers.s.headers: has no effect with transport stdio"},
		{"server name", valid + "  mcpServers:\n    a__b: {transport: stdio, command: x}",
			"f.yaml:6: agents[0].mcpServers.a__b: a name must consist of letters, digits, hyphens and single underscores between them"},
		{"env a number", valid + "  mcpServers:\n    s: {transport: stdio, command: x, env: {PORT: 80}}",
			"f.yaml:6: agents[0].mcpServers.s.env.PORT: must be a string, not a number"},
		{"subagent", valid + "  subagents:\n    r: {prompt: '', maxTurns: -1}",
			"f.yaml:6: agents[0].subagents.r.description: is missing\nf.yaml:6: agents[0].subagents.r.prompt: must not be empty\nf.yaml:6: agents[0].subagents.r.maxTurns: must be greater than zero"},
		{"tool without source", valid + "  customTools:\n  - name: t", "f.yaml:6: agents[0].customTools[0]: requires url or path"},
		{"tool with a bad source", valid + "  customTools:\n  - url: 1",
			"f.yaml:6: agents[0].customTools[0].url: must be a string, not a number"},
		{"tool with two sources", valid + "  customTools:\n  - {url: u, path: p}",
			"f.yaml:6: agents[0].customTools[0].path: cannot be combined with url"},
		{"tool without hash", valid + "  customTools:\n  - {url: u}",
			"f.yaml:6: agents[0].customTools[0].name: is missing\nf.yaml:6: agents[0].customTools[0].hash: is missing"},

		{"variable not set", "agents:\n- id: a\n  model: m\n  provider:\n    protocol: demo\n    apiKey: ${NOPE}",
			"f.yaml:6: agents[0].provider.apiKey: environment variable NOPE is not set"},
		{"variable is empty", "agents:\n- id: a\n  model: m\n  provider:\n    protocol: demo\n    apiKey: ${EMPTY}\n    baseUrl: ${EMPTY}", "f.yaml:6: agents[0].provider.apiKey: must not be empty\nf.yaml:7: agents[0].provider.baseUrl: must not be empty"},
		{"variable with a default", "auth: {apiKey: '${A:-b}'}\nagents: []",
			"f.yaml:1: auth.apiKey: ${...} must contain the name of an environment variable; write $${ for a literal ${"},
		{"variable not closed", "auth: {apiKey: 'x${A'}\nagents: []",
			"f.yaml:1: auth.apiKey: ${ without }; write $${ for a literal ${"},
		{"variable in a header", valid + "  mcpServers:\n    s: {transport: http, url: 'https://u', headers: {\"X.Y\": '${NOPE}'}}",
			`f.yaml:6: agents[0].mcpServers.s.headers["X.Y"]: environment variable NOPE is not set`},

		{"auth without key", "auth: {}\nagents: []", "f.yaml:1: auth.apiKey: is missing"},
		{"auth with no keys", "auth: {apiKey: []}\nagents: []",
			"f.yaml:1: auth.apiKey: must not be empty; omit auth to accept every caller"},
		{"auth with an empty variable", "auth: {apiKey: '${EMPTY}'}\nagents: []", "f.yaml:1: auth.apiKey[0]: must not be empty"},
		{"auth a number", "auth: {apiKey: 1}\nagents: []", "f.yaml:1: auth.apiKey: must be a string, not a number"},
		{"auth keys", "auth:\n  apiKey:\n  - good\n  - a b\n  - a,b\n  - 7\nagents: []",
			"f.yaml:4: auth.apiKey[1]: must be visible ASCII characters without commas\nf.yaml:5: auth.apiKey[2]: must be visible ASCII characters without commas\nf.yaml:6: auth.apiKey[3]: must be a string, not a number"},

		{"limits", "limits:\n  runTimeout: 30\n  toolTimeout: 0s\n  maxConcurrentRuns: 0\n  maxMessageBytes: 4MiB\n  sessionTTL: 30d\nagents: []", `f.yaml:2: limits.runTimeout: must be a duration such as "90s" or "30m"` + "\nf.yaml:3: limits.toolTimeout: must be greater than zero\nf.yaml:4: limits.maxConcurrentRuns: must be greater than zero\nf.yaml:5: limits.maxMessageBytes: must be a whole number, not a string\nf.yaml:6: limits.sessionTTL: must be a duration such as \"90s\" or \"30m\""},
		{"a response that no adapter accepts", "limits: {maxResponseBytes: 67108865, maxMemoryBytes: 0}\nagents: []",
			"f.yaml:1: limits.maxResponseBytes: must be at most 67108864\nf.yaml:1: limits.maxMemoryBytes: must be greater than zero"},
		{"too large", "limits: {maxMessageBytes: 99999999999999999999}\nagents: []",
			"f.yaml:1: limits.maxMessageBytes: must be a whole number of at most 9223372036854775807"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f, err := agent.Parse("f.yaml", []byte(tc.file), env)
			require.EqualError(t, err, tc.want)
			require.Nil(t, f)
			var faults agent.Faults
			require.ErrorAs(t, err, &faults)
			require.Len(t, faults, strings.Count(tc.want, "\n")+1)
		})
	}
}

// TestAllFaultsAtOnce has one file with a fault of each kind. All are reported.
func TestAllFaultsAtOnce(t *testing.T) {
	data, err := os.ReadFile("testdata/faults.yaml")
	require.NoError(t, err)
	want, err := os.ReadFile("testdata/faults.txt")
	require.NoError(t, err)
	_, err = agent.Parse("faults.yaml", data, env)
	require.EqualError(t, err, strings.TrimSuffix(string(want), "\n"))
}

func TestFaultPlaces(t *testing.T) {
	for _, tc := range []struct{ name, file string }{
		{"f.yaml", "agents:\n  - id: a\n    model: \"é\"\n    provider: {protocol: demo, apiKey: 7}\n"},
		{"f.json", "{\"agents\":\n  [{ \"id\": \"a\",\n    \"model\": \"é\",\n\"é\": 1, \"provider\": {\"apiKey\": 7, \"protocol\": \"demo\"}}]}"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := agent.Parse(tc.name, []byte(tc.file), nil)
			var faults agent.Faults
			require.ErrorAs(t, err, &faults)
			last := faults[len(faults)-1]
			line := strings.Split(tc.file, "\n")[last.Line-1]
			at := string([]rune(line)[last.Column-1:])
			require.Regexp(t, `^"?apiKey"?: 7`, at)
			require.Equal(t, "agents[0].provider.apiKey", last.Key)
		})
	}
}
