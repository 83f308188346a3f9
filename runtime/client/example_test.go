package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"time"

	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/client"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// demoRuntime serves an agent that needs no key and no network.
func demoRuntime() (url string, stop func()) {
	rt, err := runtime.New(context.Background(), runtime.Config{Agents: []agent.Agent{{
		ID: "helper", Model: "demo", Provider: agent.Provider{Protocol: agent.ProtocolDemo},
	}}})
	if err != nil {
		panic(err)
	}
	server := httptest.NewServer(rt)
	return server.URL, func() {
		server.Close()
		_ = rt.Close()
	}
}

func ExampleClient_Run() {
	url, stop := demoRuntime()
	defer stop()
	c, err := client.New(client.Config{BaseURL: url})
	if err != nil {
		fmt.Println(err)
		return
	}
	for event, err := range c.Run(context.Background(), "helper", wire.RunRequest{Message: "Hello!"}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		switch p := event.Payload.(type) {
		case *wire.System:
			fmt.Println(p.AgentID, "begins")
		case *wire.PartialMessage:
			fmt.Print(p.Partial.Text)
		case *wire.Result:
			fmt.Println()
			fmt.Println(p.Subtype)
		case *wire.Done:
			fmt.Println("done")
		}
	}
	// Output:
	// helper begins
	// This is the demo model: it needs no key and no network, and it only echoes. You wrote: Hello!
	// success
	// done
}

func ExampleClient_Complete() {
	url, stop := demoRuntime()
	defer stop()
	c, err := client.New(client.Config{BaseURL: url})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	answer, err := c.Complete(ctx, "helper", wire.RunRequest{Message: "Hello!"})
	fmt.Println(answer.State, err)

	_, err = c.Complete(ctx, "nobody", wire.RunRequest{Message: "Hello!"})
	if refusal, ok := errors.AsType[*client.Error](err); ok {
		fmt.Println(refusal.Status, refusal.Body.Error)
	}
	// Output:
	// completed <nil>
	// 404 Agent not found
}
