package runtime_test

import (
	"context"
	"os/exec"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// mcpRole is the argument of the test binary that makes it a stdio server.
const mcpRole = "stdio-server"

// serveStdio is an MCP server that executes commands.
func serveStdio() error {
	server := sdk.NewServer(&sdk.Implementation{Name: "execute", Version: "1"}, nil)
	type input struct {
		Command string `json:"command"`
	}
	sdk.AddTool(server, &sdk.Tool{Name: "execute"}, func(ctx context.Context, _ *sdk.CallToolRequest, in input) (*sdk.CallToolResult, any, error) {
		output, err := exec.CommandContext(ctx, "/bin/bash", "-c", in.Command).CombinedOutput()
		return &sdk.CallToolResult{IsError: err != nil, Content: []sdk.Content{&sdk.TextContent{Text: string(output)}}}, nil, nil
	})
	return server.Run(context.Background(), &sdk.StdioTransport{})
}
