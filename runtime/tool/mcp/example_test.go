package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed93082962/agenthost/internal/agentvalue"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/tool"
	"github.com/seed93082962/agenthost/runtime/tool/mcp"
)

func ExampleConnector_Open() {
	// A server with one tool.
	weather := sdk.NewServer(&sdk.Implementation{Name: "weather", Version: "1"}, nil)
	sdk.AddTool(weather, &sdk.Tool{Name: "today", Description: "Returns the weather of today."},
		func(_ context.Context, _ *sdk.CallToolRequest, in struct {
			City string `json:"city"`
		}) (*sdk.CallToolResult, any, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "sunny in " + in.City}}}, nil, nil
		})
	web := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return weather }, nil))
	defer web.Close()

	connector, err := mcp.New(mcp.Config{})
	if err != nil {
		panic(err)
	}
	server, err := connector.Open("weather", agent.MCPServer{Transport: agentvalue.TransportHTTP, URL: web.URL}, agent.Limits{}, nil)
	if err != nil {
		panic(err)
	}
	defer server.Close()

	fmt.Println(server.Status())
	list, err := server.Tools(context.Background())
	if err != nil {
		panic(err)
	}
	fmt.Println(server.Status(), list.Tools[0].Spec().Name)
	res, err := list.Tools[0].Call(context.Background(), tool.Call{ID: "t1", Input: json.RawMessage(`{"city":"Oslo"}`)})
	fmt.Println(res.Output, err)
	// Output:
	// pending
	// connected mcp__weather__today
	// sunny in Oslo <nil>
}
