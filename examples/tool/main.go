// Command tool gives an agent a tool written in Go, runs it once in process, and prints the events:
//
//	go run ./examples/tool
//
// The demo model calls a tool when it is told to, so that this works without a key.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/tool"
)

func main() {
	if err := demonstrate(); err != nil {
		log.Fatal(err)
	}
}

func demonstrate() error {
	wordCount := tool.New(tool.Spec{
		Name: "word_count", Description: "Counts the words of a text.", ReadOnly: true,
		InputSchema: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}`),
	}, func(_ context.Context, call tool.Call) (tool.Result, error) {
		var in struct{ Text string }
		if err := json.Unmarshal(call.Input, &in); err != nil {
			return tool.Result{}, fmt.Errorf("read input: %w", err) // the model is told, and may try again
		}
		return tool.Result{Output: fmt.Sprint(len(bytes.Fields([]byte(in.Text))))}, nil
	})
	rt, err := runtime.New(context.Background(), runtime.Config{
		Agents: []agent.Agent{{ID: "counter", Model: "demo", Provider: agent.Provider{Protocol: agent.ProtocolDemo}}},
		Tools:  []tool.Tool{wordCount},
	})
	if err != nil {
		return err
	}
	defer rt.Close()

	message := `{"message": "/tool word_count {\"text\": \"one two three\"}", "stream": "block"}`
	request := httptest.NewRequest(http.MethodPost, "/v1/agents/counter/runs", bytes.NewBufferString(message))
	answer := httptest.NewRecorder()
	rt.ServeHTTP(answer, request)
	fmt.Println(answer.Body)
	return nil
}
