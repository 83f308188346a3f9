// Command tool gives an agent a tool written in Go, runs the agent once in process, and prints the
// events:
//
//	go run ./examples/tool
//
// The demo model calls a tool on request and needs no key.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"strings"

	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/tool"
	"github.com/seed93082962/agenthost/runtime/wire"
)

func main() {
	if err := demonstrate(context.Background()); err != nil {
		log.Fatal(err)
	}
}

type text struct{ Text string }

func demonstrate(ctx context.Context) error {
	wordCount := tool.Func(tool.Spec{
		Name: "word_count", Description: "Counts the words of a text.", ReadOnly: true,
		InputSchema: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}`),
	}, func(_ context.Context, in text) (string, error) {
		return fmt.Sprintf("%d words", len(strings.Fields(in.Text))), nil
	})
	rt, err := runtime.New(ctx, runtime.Config{
		Agents: []agent.Agent{{ID: "counter", Model: "demo", Provider: agent.Provider{Protocol: agent.ProtocolDemo}}},
		Tools:  []tool.Tool{wordCount},
	})
	if err != nil {
		return err
	}
	defer rt.Close()

	request := wire.RunRequest{Message: `/tool word_count {"text": "one two three"}`}
	for event, err := range rt.Run(ctx, "counter", request) {
		if err != nil {
			return err
		}
		switch p := event.Payload.(type) {
		case *wire.PartialMessage:
			fmt.Print(p.Partial.Text)
		case *wire.ToolResult:
			fmt.Printf("\n[%s: %s]\n", p.Result.ToolName, p.Result.Output)
		case *wire.Result:
			fmt.Printf("\n%s after %d turns\n", p.Subtype, p.NumTurns)
		}
	}
	return nil
}
