package tool_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/seed93082962/agenthost/runtime/tool"
)

// New passes the call to the function: its input in JSON, and the ids of the run.
func ExampleNew() {
	note := tool.New(tool.Spec{
		Name:        "note",
		Description: "Stores a note for the user.",
		InputSchema: json.RawMessage(`{"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}`),
	}, func(_ context.Context, call tool.Call) (tool.Result, error) {
		return tool.Result{Output: fmt.Sprintf("session %s: %s", call.SessionID, call.Input)}, nil
	})
	res, err := note.Call(context.Background(), tool.Call{ID: "t1", Input: json.RawMessage(`{"text":"milk"}`), SessionID: "s1"})
	fmt.Println(res.Output, err)
	// Output: session s1: {"text":"milk"} <nil>
}

// Func decodes the input into a struct.
func ExampleFunc() {
	type input struct {
		Text string `json:"text"`
	}
	count := tool.Func(tool.Spec{
		Name:        "word_count",
		Description: "Counts the words of a text.",
		InputSchema: json.RawMessage(`{"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}`),
		ReadOnly:    true,
	}, func(_ context.Context, in input) (string, error) {
		return fmt.Sprint(len(strings.Fields(in.Text)), " words"), nil
	})
	res, err := count.Call(context.Background(), tool.Call{ID: "t1", Input: json.RawMessage(`{"text":"to be or not"}`)})
	fmt.Println(res.Output, err)
	// Output: 4 words <nil>
}
