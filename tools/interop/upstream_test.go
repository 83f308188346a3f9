package interop_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/agent"
)

const fixtures = `{"fixtures":[
	{"match":{"userMessage":"hello"},"response":{"content":"Good day from the mock."}},
	{"match":{"userMessage":"list","hasToolResult":true},"response":{"content":"There are files."}},
	{"match":{"userMessage":"list"},"response":{"toolCalls":[{"name":"Glob","arguments":{"pattern":"*"}}]}}
]}`

// TestMockUpstream runs conversations against aimock on both wire formats.
func TestMockUpstream(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "fixtures.json"), []byte(fixtures), 0o600))
	port := freePort(t)
	start(t, dir, nil, bin(t, "llmock"), "--port", port, "--fixtures", filepath.Join(dir, "fixtures.json"), "--strict")
	base := "http://127.0.0.1:" + port
	awaitHTTP(t, base+"/")
	for protocol, url := range map[string]string{agent.ProtocolAnthropic: base, agent.ProtocolOpenAI: base + "/v1"} {
		t.Run(protocol, func(t *testing.T) {
			runtime := serve(t, agent.Agent{Model: "m", Provider: agent.Provider{
				Protocol: protocol, BaseURL: agent.Secret(url), APIKey: "mock",
			}})
			require.Equal(t, "Good day from the mock.", resultText(t, run(t, runtime, "hello")))
			events := run(t, runtime, "list")
			require.NotEmpty(t, toolOutput(t, events))
			require.Equal(t, "There are files.", resultText(t, events))
		})
	}
}
