package main_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
)

// serverVariable selects the MCP server that a test binary runs as.
const serverVariable = "AGENTHOST_TEST_MCP"

// stdioServer returns the definition of such a server in a configuration. It starts in the
// directory of the agents, where a test can see the files that it creates.
const stdioServer = `{transport: stdio, command: "{self}", args: ["-test.run=^TestMCPServer$"], cwd: ., env: {AGENTHOST_TEST_MCP: %s}}`

// TestMCPServer is the entry point of such a process.
func TestMCPServer(t *testing.T) {
	roles := map[string]func() error{
		"tools":  func() error { return newMCPServer().Run(t.Context(), &sdk.StdioTransport{}) },
		"silent": func() error { return silence("") },
		"mute":   func() error { return silence("started") },
		"garbage": func() error {
			fmt.Println("Welcome! <html> {{{ \x00\xff")
			return silence("")
		},
		"dead": func() error { os.Exit(3); return nil },
	}
	role := os.Getenv(serverVariable)
	if role == "" {
		return
	}
	play, ok := roles[role]
	require.True(t, ok)
	_ = play() // the client has disconnected
	os.Exit(0)
}

// silence creates a file, and then reads without a response.
func silence(file string) error {
	if file != "" {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			return err
		}
	}
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

type textInput struct {
	Text string `json:"text"`
}

// newMCPServer returns the server that tests use over each transport.
func newMCPServer() *sdk.Server {
	server := sdk.NewServer(&sdk.Implementation{Name: "e2e", Version: "1"}, nil)
	offer := func(name string, do func(ctx context.Context, text string) (string, error)) {
		sdk.AddTool(server, &sdk.Tool{Name: name, Description: "Does " + name + "."},
			func(ctx context.Context, _ *sdk.CallToolRequest, in textInput) (*sdk.CallToolResult, any, error) {
				out, err := do(ctx, in.Text)
				return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: out}}}, nil, err
			})
	}
	offer("echo", func(_ context.Context, text string) (string, error) { return "echo: " + text, nil })
	offer("environ", func(context.Context, string) (string, error) { return strings.Join(os.Environ(), "\n"), nil })
	// wait creates a file and waits until the call is cancelled.
	offer("wait", func(ctx context.Context, file string) (string, error) {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			return "", err
		}
		<-ctx.Done()
		return "", ctx.Err()
	})
	// deaf ignores its cancel. It needs a separate process.
	// trace returns the traces of a call: that of its message, and that of its HTTP request.
	sdk.AddTool(server, &sdk.Tool{Name: "trace", Description: "Returns traces."},
		func(_ context.Context, req *sdk.CallToolRequest, _ textInput) (*sdk.CallToolResult, any, error) {
			text := fmt.Sprint(req.Params.Meta["traceparent"])
			if extra := req.GetExtra(); extra != nil && extra.Header != nil {
				text += " " + extra.Header.Get("Traceparent")
			}
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}, nil, nil
		})
	offer("deaf", func(_ context.Context, file string) (string, error) {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			return "", err
		}
		select {}
	})
	return server
}
