package runtime_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/tool/mcp"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// A server that is down when the runtime starts is connected when it is up, without a run.
func TestServerThatIsUpLater(t *testing.T) {
	t.Parallel()
	server := sdk.NewServer(&sdk.Implementation{Name: "words", Version: "1"}, nil)
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil)
	var up atomic.Bool
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !up.Load() {
			http.Error(w, "soon", http.StatusServiceUnavailable)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close) // after the runtime, which holds a connection
	connector, err := mcp.New(mcp.Config{})
	require.NoError(t, err)
	b := serve(t, nil, func(cfg *runtime.Config) {
		cfg.OpenMCP = connector.Open
		cfg.Agents[0].MCPServers = map[string]agent.MCPServer{"words": {Transport: agent.TransportHTTP, URL: web.URL}}
	})
	becomes := func(want wire.MCPServer) {
		require.Eventually(t, func() bool {
			var detail wire.AgentDetail
			require.NoError(t, json.Unmarshal([]byte(b.do(t, "GET", "/v1/agents/helper", "").body), &detail))
			state := detail.MCPServers["words"]
			return state.Status == want.Status && state.Error == want.Error
		}, time.Minute, 10*time.Millisecond)
	}
	becomes(wire.MCPServer{Status: "failed", Error: "mcp server words: the server responded with 503 Service Unavailable: soon"})
	up.Store(true)
	becomes(wire.MCPServer{Status: "connected"})
}

func (c *contract) mcpServers() {
	server := sdk.NewServer(&sdk.Implementation{Name: "words", Version: "1"}, nil)
	sdk.AddTool(server, &sdk.Tool{Name: "count"}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "7"}}}, nil, nil
	})
	web := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil))
	c.t.Cleanup(web.Close) // after the runtime, which holds a connection
	connector, err := mcp.New(mcp.Config{})
	require.NoError(c.t, err)
	up := modeltest.Start(c.t, modeltest.Anthropic, modeltest.Stream(modeltest.ToolCall("t1", "mcp__words__count", `{}`)), modeltest.Stream(modeltest.Text("Seven.")),
		modeltest.Stream(modeltest.Text("Again.")))
	b := serve(c.t, up, func(cfg *runtime.Config) {
		cfg.OpenMCP = connector.Open
		cfg.Agents[0].AllowedTools = []string{"mcp__words"}
		cfg.Agents[0].MCPServers = map[string]agent.MCPServer{
			"words": {Transport: agent.TransportHTTP, URL: web.URL}, "gone": {Transport: agent.TransportHTTP, URL: "http://127.0.0.1:1"},
		}
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
