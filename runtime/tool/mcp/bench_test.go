package mcp_test

import (
	"context"
	"encoding/json"
	"os/exec"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/tool"
)

// BenchmarkCall measures a call of a tool that returns immediately, and the same call through a
// session of the SDK.
func BenchmarkCall(b *testing.B) {
	input := json.RawMessage(`{"text":"hello"}`)
	for _, transport := range []string{"stdio", "http"} {
		b.Run(transport, func(b *testing.B) {
			echo := find(b, newWorld(b).open(carried[transport](b)), "echo")
			b.ReportAllocs()
			for b.Loop() {
				if res, err := echo.Call(context.Background(), tool.Call{Input: input}); err != nil || res.IsError {
					b.Fatal(res, err)
				}
			}
		})
		b.Run(transport+" by the SDK", func(b *testing.B) {
			def := carried[transport](b)
			var by sdk.Transport = &sdk.StreamableClientTransport{Endpoint: def.URL}
			if transport == "stdio" {
				cmd := exec.CommandContext(b.Context(), def.Command, def.Args...)
				cmd.Dir = b.TempDir()
				by = &sdk.CommandTransport{Command: cmd}
			}
			client := sdk.NewClient(&sdk.Implementation{Name: "bench"}, nil)
			session, err := client.Connect(b.Context(), by, &sdk.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
			require.NoError(b, err)
			b.Cleanup(func() { session.Close() })
			b.ReportAllocs()
			for b.Loop() {
				res, err := session.CallTool(context.Background(), &sdk.CallToolParams{Name: "echo", Arguments: input})
				if err != nil || res.IsError {
					b.Fatal(res, err)
				}
			}
		})
	}
}
