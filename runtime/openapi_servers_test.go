package runtime_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/tool"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// A server that is down when the runtime starts is connected when it is up, without a run.
func TestServerThatIsUpLater(t *testing.T) {
	t.Parallel()
	words := &shelf{name: "words", list: &tool.List{}}
	words.down.Store(true)
	b := serve(t, nil, func(cfg *runtime.Config) { openShelves(cfg, words) })
	becomes := func(want wire.MCPServer) {
		require.Eventually(t, func() bool {
			var detail wire.AgentDetail
			require.NoError(t, json.Unmarshal([]byte(b.do(t, "GET", "/v1/agents/helper", "").body), &detail))
			state := detail.MCPServers["words"]
			return state.Status == want.Status && state.Error == want.Error
		}, time.Minute, 10*time.Millisecond)
	}
	becomes(wire.MCPServer{Status: "failed", Error: "mcp server words: connection refused"})
	words.down.Store(false)
	becomes(wire.MCPServer{Status: "connected"})
}

func (c *contract) mcpServers() {
	words := &shelf{name: "words", list: &tool.List{Tools: []tool.Tool{
		answering("mcp__words__count", "", `{"type":"object"}`, func(map[string]string) string { return "7" }),
	}}}
	gone := &shelf{name: "gone"}
	gone.down.Store(true)
	up := modeltest.Start(c.t, modeltest.Anthropic, modeltest.Stream(modeltest.ToolCall("t1", "mcp__words__count", `{}`)), modeltest.Stream(modeltest.Text("Seven.")),
		modeltest.Stream(modeltest.Text("Again.")))
	b := serve(c.t, up, func(cfg *runtime.Config) {
		cfg.Agents[0].AllowedTools = []string{"mcp__words"}
		openShelves(cfg, words, gone)
	})
	var detail wire.AgentDetail
	require.Eventually(c.t, func() bool { // without a run
		require.NoError(c.t, json.Unmarshal([]byte(c.call(b, "GET", "/v1/agents/helper", "").body), &detail))
		return detail.MCPServers["words"].Status == "connected" && detail.MCPServers["gone"].Status == "failed"
	}, time.Minute, 20*time.Millisecond)
	require.Empty(c.t, detail.MCPServers["words"].Error)
	require.Contains(c.t, detail.MCPServers["gone"].Error, "connection refused")
	first := c.call(b, "POST", runs, hello).body
	require.Contains(c.t, first, `"mcp_servers":[{"name":"gone","status":"failed"},{"name":"words","status":"connected"}]`)
	require.Contains(c.t, first, `{"type":"system","subtype":"mcp_status","name":"gone","status":"failed","error":"`)
	require.Contains(c.t, first, `"output":"7"`)
	second := c.call(b, "POST", runs, hello).body
	require.Contains(c.t, second, `"mcp_servers":[{"name":"gone","status":"failed"},{"name":"words","status":"connected"}]`)
}
