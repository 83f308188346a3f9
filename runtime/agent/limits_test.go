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
		MaxToolOutputBytes: 100_000, MCPConnectTimeout: 10 * time.Second, MaxMessageBytes: 4_194_304, MaxResponseBytes: 4_194_304,
		MaxMemoryBytes: 536_870_912, SessionTTL: 720 * time.Hour,
	}
	require.Equal(t, defaults, agent.Limits{}.WithDefaults())
	set := agent.Limits{
		MaxConcurrentRuns: 1, RunTimeout: 2, LLMIdleTimeout: 3, ToolTimeout: 4,
		MaxToolOutputBytes: 5, MCPConnectTimeout: 6, MaxMessageBytes: 7, MaxResponseBytes: 9, MaxMemoryBytes: 10, SessionTTL: 8,
	}
	require.Equal(t, set, set.WithDefaults())
}

func TestLimitsJSON(t *testing.T) {
	data, err := json.Marshal(agent.Limits{}.WithDefaults())
	require.NoError(t, err)
	require.JSONEq(t, `{"maxConcurrentRuns":1000,"runTimeout":"30m0s","llmIdleTimeout":"2m0s","toolTimeout":"2m0s",
		"maxToolOutputBytes":100000,"mcpConnectTimeout":"10s","maxMessageBytes":4194304,"maxResponseBytes":4194304,"maxMemoryBytes":536870912,"sessionTTL":"720h0m0s"}`, string(data))

	data, err = json.Marshal(agent.Limits{})
	require.NoError(t, err)
	require.Equal(t, `{}`, string(data))

	kept := agent.Limits{RunTimeout: time.Second, MaxMessageBytes: 5}
	require.NoError(t, json.Unmarshal([]byte(`{"toolTimeout":"1m"}`), &kept))
	require.Equal(t, agent.Limits{RunTimeout: time.Second, MaxMessageBytes: 5, ToolTimeout: time.Minute}, kept)
	require.EqualError(t, json.Unmarshal([]byte(`{"toolTimeout":"soon"}`), &kept), `decode limits: time: invalid duration "soon"`)
}
