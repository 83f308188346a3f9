package agent_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/agent"
)

const hidden = "hunter2"

func withSecrets() agent.File {
	return agent.File{
		Auth: agent.Auth{APIKeys: []agent.Secret{hidden}},
		Agents: []agent.Agent{{
			ID: "a", Model: "m",
			Provider: agent.Provider{Protocol: "openai", BaseURL: "https://" + hidden + "@host/v1", APIKey: hidden},
			MCPServers: map[string]agent.MCPServer{
				"s": {Transport: "stdio", Command: "cmd", Args: []string{"--key=" + hidden}, Env: map[string]agent.Secret{"K": hidden}},
				"h": {Transport: "http", URL: "https://host/?key=" + hidden, Headers: map[string]agent.Secret{"K": hidden}},
			},
		}},
	}
}

func TestSecretsAreNotPrinted(t *testing.T) {
	f := withSecrets()
	a := f.Agents[0]
	values := map[string]any{
		"file": f, "file pointer": &f, "auth": f.Auth, "agent": a, "agent pointer": &a, "provider": a.Provider,
		"server": a.MCPServers["s"], "headers": a.MCPServers["h"].Headers, "secret": a.Provider.APIKey, "keys": f.Auth.APIKeys,
	}
	for name, v := range values {
		t.Run(name, func(t *testing.T) {
			for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%10.3s"} {
				require.NotContains(t, fmt.Sprintf(verb, v), hidden, verb)
				require.NotContains(t, fmt.Sprintf(verb, v), "68756e746572", verb) // in hex
			}
		})
	}
	// A map or slice of secrets by itself is the one thing a JSON handler is given raw.
	for _, name := range []string{"file", "file pointer", "auth", "agent", "agent pointer", "provider", "server", "secret"} {
		t.Run("log "+name, func(t *testing.T) {
			var out bytes.Buffer
			slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "v", values[name])
			slog.New(slog.NewTextHandler(&out, nil)).Info("x", "v", values[name])
			require.NotContains(t, out.String(), hidden)
		})
	}
	require.Equal(t, "*** ", fmt.Sprint(a.Provider.APIKey, " ", agent.Secret("")))
}

func TestAgentInALog(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	f := withSecrets()
	log.Info("start", "file", f, "agent", f.Agents[0], "server", f.Agents[0].MCPServers["s"])
	require.Equal(t, `level=INFO msg=start file.agents=a file.auth.keys=1 agent.id=a agent.model=m agent.provider.protocol=openai `+
		`agent.provider.baseUrl=*** agent.provider.apiKey=*** server.transport=stdio server.command=cmd`+"\n", out.String())
}

func TestSecretsAreNotInFaults(t *testing.T) {
	lookup := func(string) (string, bool) { return hidden + " ${X}", true }
	_, err := agent.Parse("f.yaml", []byte("auth: {apiKey: \"${K}\"}\nagents:\n- {id: a, provider: {protocol: demo, apiKey: \"${K}\"}}"), lookup)
	require.EqualError(t, err, "f.yaml:1: auth.apiKey[0]: must be visible ASCII characters without commas\nf.yaml:3: agents[0].model: is missing")
}

func TestSecretText(t *testing.T) {
	for _, tc := range []struct{ name, value, text string }{
		{"plain", "a", `"a"`},
		{"empty", "", `""`},
		{"dollars", "a$b$$", `"a$b$$"`},
		{"variable", "x${A}", `"x$${A}"`},
		{"escaped variable", "$${A}", `"$$${A}"`},
		{"open", "${", `"$${"`},
		{"two", "${A}${B}", `"$${A}$${B}"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			text, err := json.Marshal(agent.Secret(tc.value))
			require.NoError(t, err)
			require.Equal(t, tc.text, string(text))
			var back agent.Secret
			require.NoError(t, json.Unmarshal(text, &back))
			require.Equal(t, tc.value, string(back))
		})
	}
	var s agent.Secret
	require.EqualError(t, json.Unmarshal([]byte(`"${A}"`), &s), "environment variable A is not set")
	require.ErrorContains(t, json.Unmarshal([]byte(`"${A:-b}"`), &s), "must contain the name of an environment variable")
}

// Servers as other programs have them: type or no transport, and defaults of variables.
func TestServersOfOtherPrograms(t *testing.T) {
	const text = `{"agents": [{"id": "a", "model": "m", "provider": {"protocol": "demo"}, "mcpServers": {
		"notes": {"command": "npx", "env": {"SET": "${SET:-x}", "EMPTY": "${EMPTY:-y}", "NONE": "a${NONE:-z:-}b", "LITERAL": "$${NONE:-z}", "BLANK": "${NONE:-}"}},
		"issues": {"type": "http", "url": "https://issues.example/mcp", "headers": {"Authorization": "Bearer ${NONE:-none}"}},
		"old": {"type": "sse", "url": "https://old.example/sse"},
		"web": {"url": "https://web.example/mcp"}}}]}`
	file, err := agent.Parse("agents.json", []byte(text), func(name string) (string, bool) {
		value, ok := map[string]string{"SET": "s", "EMPTY": ""}[name]
		return value, ok
	})
	require.NoError(t, err)
	require.Equal(t, map[string]agent.MCPServer{
		"notes":  {Transport: "stdio", Command: "npx", Env: map[string]agent.Secret{"SET": "s", "EMPTY": "y", "NONE": "az:-b", "LITERAL": "${NONE:-z}", "BLANK": ""}},
		"issues": {Transport: "http", URL: "https://issues.example/mcp", Headers: map[string]agent.Secret{"Authorization": "Bearer none"}},
		"old":    {Transport: "sse", URL: "https://old.example/sse"},
		"web":    {Transport: "http", URL: "https://web.example/mcp"},
	}, file.Agents[0].MCPServers)
}
