package agent_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/agent"
)

func TestLimitsDefaults(t *testing.T) {
	defaults := agent.Limits{
		MaxConcurrentRuns: 1000, RunTimeout: 30 * time.Minute, LLMIdleTimeout: 2 * time.Minute, ToolTimeout: 2 * time.Minute,
		MaxToolOutputBytes: 100_000, MCPConnectTimeout: 10 * time.Second, MCPStartTimeout: 3 * time.Minute, MaxMessageBytes: 4_194_304, MaxResponseBytes: 4_194_304,
		MaxMemoryBytes: 536_870_912, MaxUploadBytes: 1 << 30, SessionTTL: 720 * time.Hour,
	}
	require.Equal(t, defaults, agent.Limits{}.WithDefaults())
	set := agent.Limits{
		MaxConcurrentRuns: 1, RunTimeout: 2, LLMIdleTimeout: 3, ToolTimeout: 4,
		MaxToolOutputBytes: 5, MCPConnectTimeout: 6, MCPStartTimeout: 11, MaxMessageBytes: 7, MaxResponseBytes: 9, MaxMemoryBytes: 10, MaxUploadBytes: 12, SessionTTL: 8,
	}
	require.Equal(t, set, set.WithDefaults())
}

func TestLimitsJSON(t *testing.T) {
	data, err := json.Marshal(agent.Limits{}.WithDefaults())
	require.NoError(t, err)
	require.JSONEq(t, `{"maxConcurrentRuns":1000,"runTimeout":"30m0s","llmIdleTimeout":"2m0s","toolTimeout":"2m0s",
		"maxToolOutputBytes":100000,"mcpConnectTimeout":"10s","mcpStartTimeout":"3m0s","maxMessageBytes":4194304,"maxResponseBytes":4194304,"maxMemoryBytes":536870912,"maxUploadBytes":1073741824,"sessionTTL":"720h0m0s"}`, string(data))

	data, err = json.Marshal(agent.Limits{})
	require.NoError(t, err)
	require.Equal(t, `{}`, string(data))

	kept := agent.Limits{RunTimeout: time.Second, MaxMessageBytes: 5}
	require.NoError(t, json.Unmarshal([]byte(`{"toolTimeout":"1m"}`), &kept))
	require.Equal(t, agent.Limits{RunTimeout: time.Second, MaxMessageBytes: 5, ToolTimeout: time.Minute}, kept)
	require.EqualError(t, json.Unmarshal([]byte(`{"toolTimeout":"soon"}`), &kept), `decode limits: time: invalid duration "soon"`)
}

func TestLimitsOfAnAgent(t *testing.T) {
	file := agent.Limits{}.WithDefaults()
	require.Equal(t, file, file.Of(agent.AgentLimits{}))
	own := agent.AgentLimits{
		RunTimeout: 1, LLMIdleTimeout: 2, ToolTimeout: 3, MaxToolOutputBytes: 4, MCPConnectTimeout: 5, MCPStartTimeout: 6, MaxResponseBytes: 7,
	}
	want := file
	want.RunTimeout, want.LLMIdleTimeout, want.ToolTimeout, want.MaxToolOutputBytes = 1, 2, 3, 4
	want.MCPConnectTimeout, want.MCPStartTimeout, want.MaxResponseBytes = 5, 6, 7
	require.Equal(t, want, file.Of(own))

	a := agent.Agent{ID: "a", Model: "m", Provider: agent.Provider{Protocol: "demo"}}
	a.Limits = agent.AgentLimits{ToolTimeout: -1, MaxResponseBytes: 1 << 30}
	require.EqualError(t, a.Validate(), "limits.toolTimeout: must be greater than zero\nlimits.maxResponseBytes: must be at most 67108864")
}
