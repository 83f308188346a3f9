package interop_test

import (
	"encoding/json"
	"errors"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/agent"
)

// TestClientsOfOpenAI uses frameworks that speak both protocols: texts, streams, usage, and a tool
// that the client calls and whose result it sends.
func TestClientsOfOpenAI(t *testing.T) {
	url := serve(t, agent.Agent{}) + "/openai/v1"
	for script, protocols := range map[string][]string{
		"openai_ai.mjs":         {"responses", "chat", "compatible"},
		"openai_agents.mjs":     {"responses", "chat_completions"},
		"openai_langchain.mjs":  {"responses", "chat"},
		"openai_llamaindex.mjs": {"responses", "chat"},
	} {
		t.Run(script, func(t *testing.T) { useFramework(t, script, url, key, protocols...) })
	}
}

// useFramework uses a framework with the agent bot, whose model is the demo model.
func useFramework(t *testing.T, script, url, key string, protocols ...string) {
	t.Helper()
	binaries, err := filepath.Glob("node_modules/node-linux-*/bin/node") // they need Node.js 22
	require.NoError(t, err)
	require.Len(t, binaries, 1)
	out, err := exec.CommandContext(t.Context(), binaries[0], script, url, key).Output()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		t.Fatalf("%s", failed.Stderr)
	}
	require.NoError(t, err)
	var all map[string]struct {
		Text, Streamed, Told string
		Called               []string
		Object               map[string]any // of the AI SDK
	}
	require.NoError(t, json.Unmarshal(out, &all), "%s", out)
	require.Len(t, all, len(protocols))
	for _, protocol := range protocols {
		got, ok := all[protocol]
		require.True(t, ok, protocol)
		require.Contains(t, got.Text, "Hello, café 😀", protocol)
		require.Contains(t, got.Streamed, "And streamed?", protocol)
		require.Equal(t, []string{"Paris"}, got.Called, protocol)
		require.Contains(t, got.Told, "it rains", protocol)
		if script == "openai_ai.mjs" {
			require.Equal(t, map[string]any{"degrees": 21.0}, got.Object, protocol)
		}
	}
}
