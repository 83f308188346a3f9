package mcp_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/tool/mcp"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// A runtime whose agent has the tools of a server. The demo model calls the tool that the message
// names.
func Example_runtime() {
	clock := sdk.NewServer(&sdk.Implementation{Name: "clock", Version: "1"}, nil)
	sdk.AddTool(clock, &sdk.Tool{Name: "now", Description: "Returns the time."},
		func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "noon"}}}, nil, nil
		})
	web := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return clock }, nil))
	defer web.Close()

	connector, err := mcp.New(mcp.Config{})
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	rt, err := runtime.New(ctx, runtime.Config{
		Agents: []agent.Agent{{
			ID: "helper", Model: "demo", Provider: agent.Provider{Protocol: agent.ProtocolDemo},
			AllowedTools: []string{"mcp__clock"},
			MCPServers:   map[string]agent.MCPServer{"clock": {Transport: "http", URL: web.URL}},
		}},
		OpenMCP: connector.Open,
	})
	if err != nil {
		panic(err)
	}
	defer rt.Close()
	for event, err := range rt.Run(ctx, "helper", wire.RunRequest{Message: "/tool mcp__clock__now {}"}) {
		if err != nil {
			panic(err)
		}
		if p, ok := event.Payload.(*wire.ToolResult); ok {
			fmt.Println(p.Result.ToolName, p.Result.Output)
		}
	}
	// Output: mcp__clock__now noon
}
