package runtime_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// demo is an agent that needs no key and no network.
var demo = agent.Agent{ID: "demo", Model: "demo", Provider: agent.Provider{Protocol: agent.ProtocolDemo}}

// post sends a request as any HTTP client would, and returns the response.
func post(url, body string) (status, answer string) {
	req, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return "", err.Error()
	}
	req.Header.Set("Accept", "text/event-stream")
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err.Error()
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		return "", err.Error()
	}
	return res.Status, string(data)
}

// A runtime is a handler: it can be mounted next to others, and under a prefix.
func ExampleNew() {
	rt, err := runtime.New(context.Background(), runtime.Config{Agents: []agent.Agent{demo}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Close()
	mux := http.NewServeMux()
	mux.Handle("/ai/", http.StripPrefix("/ai", rt))
	server := httptest.NewServer(mux)
	defer server.Close()

	status, events := post(server.URL+"/ai/v1/agents/demo/runs", `{"message": "Hello!", "stream": "block"}`)
	fmt.Println(status)
	for line := range strings.Lines(events) {
		if strings.HasPrefix(line, "event: ") {
			fmt.Print(line)
		}
	}
	// Output:
	// 200 OK
	// event: system
	// event: assistant
	// event: result
	// event: done
}

// An unavailable agent is not an error of New: the others run.
func ExampleRuntime_Unavailable() {
	lost := agent.Agent{ID: "lost", Model: "m", Provider: agent.Provider{Protocol: "telepathy"}}
	rt, err := runtime.New(context.Background(), runtime.Config{Agents: []agent.Agent{demo, lost}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Close()
	for id, reason := range rt.Unavailable() {
		fmt.Printf("%s: %v\n", id, reason)
	}
	// Output:
	// lost: provider.protocol: "telepathy" is not one of anthropic, openai, demo
}

// In the same process a run is a loop over its events.
func ExampleRuntime_Run() {
	ctx := context.Background()
	rt, err := runtime.New(ctx, runtime.Config{Agents: []agent.Agent{demo}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Close()
	for event, err := range rt.Run(ctx, "demo", wire.RunRequest{Message: "Hello!"}) {
		if err != nil {
			fmt.Println("refused:", err)
			return
		}
		switch event := event.Payload.(type) {
		case *wire.PartialMessage:
			fmt.Print(event.Partial.Text)
		case *wire.Result:
			fmt.Printf("\n%s after %d turn\n", event.Subtype, event.NumTurns)
		}
	}
	// Output:
	// This is the demo model: it needs no key and no network, and it only echoes. You wrote: Hello!
	// success after 1 turn
}

// A program that shuts down drains its runtime while it still serves requests: active runs can
// complete, and a load balancer sees that the runtime is not ready.
func ExampleRuntime_Drain() {
	rt, err := runtime.New(context.Background(), runtime.Config{Agents: []agent.Agent{demo}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Close()
	server := httptest.NewServer(rt)
	defer server.Close()

	patience, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := rt.Drain(patience); err != nil {
		fmt.Println(err)
	}
	status, body := post(server.URL+"/v1/agents/demo/runs", `{"message": "Hello!"}`)
	fmt.Print(status, " ", body)
	// Output:
	// 503 Service Unavailable {"error":"Draining"}
}
