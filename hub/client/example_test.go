package client_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed93082962/agenthost/hub/client"
	"github.com/seed93082962/agenthost/hub/wire"
	runtimewire "github.com/seed93082962/agenthost/runtime/wire"
)

// An agent of the demo model, which needs no key, is created, deployed and called.
func Example() {
	dir, remove := temporary()
	defer remove()
	url, stop, err := openHub(dir)
	if err != nil {
		panic(err)
	}
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	c, err := client.New(client.Config{BaseURL: url})
	if err != nil {
		panic(err)
	}
	login, err := c.Auth.Setup(ctx, wire.SetupRequest{Username: "ada", Password: "correct horse", SetupToken: setupToken})
	if err != nil {
		panic(err)
	}
	fmt.Println(login.User.Username, "is", login.User.Role)

	if _, err := c.Agents.Create(ctx, wire.AgentRequest{Name: "helper", ProviderID: "demo", Model: "demo"}); err != nil {
		panic(err)
	}
	deployment, err := c.Deployments.Deploy(ctx, "helper", false)
	for err == nil && deployment.State != wire.StateRunning {
		deployment, err = c.Deployments.Wait(ctx, "helper", deployment)
	}
	if err != nil {
		panic(err)
	}

	session, err := c.Chats.Create(ctx, "helper", "")
	if err != nil {
		panic(err)
	}
	for event, err := range c.Chats.Send(ctx, "helper", session.ID, wire.ChatMessageRequest{Message: "Hello!"}) {
		if err != nil {
			panic(err)
		}
		switch event := event.(type) {
		case *runtimewire.PartialMessage:
			fmt.Print(event.Partial.Text)
		case *wire.Saved:
			fmt.Printf("\n%s\n", event.Status)
		}
	}
	_, err = c.Agents.Get(ctx, "nobody")
	fmt.Println(errors.Is(err, wire.NotFound))
	// Output:
	// ada is admin
	// This is the demo model: it needs no key and no network, and it only echoes. You wrote: Hello!
	// completed
	// true
}
