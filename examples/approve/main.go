// Command approve gives an agent a tool that changes something, and asks before each call:
//
//	go run ./examples/approve
//
// The agent's mode would refuse the tool, as it is neither read-only nor on a list. Approve has the last word: here it
// lets small amounts pass, where a real program asks somebody and waits. The demo model needs no key.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"

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

type payment struct {
	To    string
	Cents int
}

func demonstrate(ctx context.Context) error {
	paid := 0
	pay := tool.Func(tool.Spec{
		Name: "pay", Description: "Sends somebody money.",
		InputSchema: json.RawMessage(`{"type":"object","properties":{"to":{"type":"string"},"cents":{"type":"integer"}}}`),
	}, func(_ context.Context, in payment) (string, error) {
		paid += in.Cents
		return fmt.Sprintf("%s got %d cents", in.To, in.Cents), nil
	})
	rt, err := runtime.New(ctx, runtime.Config{
		Agents:  []agent.Agent{{ID: "clerk", Model: "demo", Provider: agent.Provider{Protocol: agent.ProtocolDemo}}},
		Tools:   []tool.Tool{pay},
		Approve: approve,
	})
	if err != nil {
		return err
	}
	defer rt.Close()

	for _, input := range []string{`{"to":"Ada","cents":250}`, `{"to":"Bob","cents":99900}`} {
		for event, err := range rt.Run(ctx, "clerk", wire.RunRequest{Message: "/tool pay " + input}) {
			if err != nil {
				return err
			}
			if p, ok := event.Payload.(*wire.ToolResult); ok {
				fmt.Println("the model is told:", p.Result.Output)
			}
		}
	}
	fmt.Println("paid in all:", paid)
	return nil
}

// approve is called by the run that waits for it. When the run is cancelled, so is ctx.
func approve(_ context.Context, call runtime.Approval) bool {
	var in payment
	ok := call.Tool == "pay" && json.Unmarshal(call.Input, &in) == nil && in.Cents <= 1000
	fmt.Printf("%s wants to %s %d cents to %s: %v\n", call.AgentID, call.Tool, in.Cents, in.To, ok)
	return ok
}
