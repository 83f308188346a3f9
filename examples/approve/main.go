// Command approve gives an agent a tool with side effects, and approves each call:
//
//	go run ./examples/approve
//
// The agent's mode would deny the tool, because it is neither read-only nor listed. Approve
// decides: here it permits small amounts, where a real program asks a user and waits. The demo
// model needs no key.
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
				fmt.Println("the model receives:", p.Result.Output)
			}
		}
	}
	fmt.Println("paid in all:", paid)
	return nil
}

// approve is called by the run, which waits for it. ctx is cancelled with the run.
func approve(_ context.Context, req runtime.ApprovalRequest) bool {
	var in payment
	ok := req.ToolName == "pay" && json.Unmarshal(req.Input, &in) == nil && in.Cents <= 1000
	fmt.Printf("%s wants to %s %d cents to %s: %v\n", req.AgentID, req.ToolName, in.Cents, in.To, ok)
	return ok
}
