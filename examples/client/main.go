// Command client runs an agent of a runtime and prints its output as it arrives:
//
//	go run ./cmd/runtime &
//	go run ./examples/client -agent demo "What are you?"
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"

	"github.com/seed93082962/agenthost/runtime/client"
	"github.com/seed93082962/agenthost/runtime/wire"
)

func main() {
	url := flag.String("url", "http://127.0.0.1:3000", "the runtime")
	agent := flag.String("agent", "demo", "the agent to run")
	flag.Parse()
	// The end of the context closes the connection, which cancels the run.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := ask(ctx, *url, *agent, flag.Arg(0)); err != nil {
		log.Fatal(err)
	}
}

func ask(ctx context.Context, url, agent, message string) error {
	c, err := client.New(client.Config{BaseURL: url, APIKey: os.Getenv("AGENT_HTTP_API_KEY")})
	if err != nil {
		return err
	}
	for event, err := range c.Run(ctx, agent, wire.RunRequest{Message: message}) {
		if err != nil {
			return err
		}
		switch p := event.Payload.(type) {
		case *wire.PartialMessage:
			fmt.Print(p.Partial.Text)
		case *wire.ToolResult:
			fmt.Printf("\n[%s: %s]\n", p.Result.ToolName, p.Result.Output)
		case *wire.Result:
			fmt.Printf("\n%s after %d turns and %d tokens\n", p.Subtype, p.NumTurns, p.Usage.OutputTokens)
		case *wire.Cancelled:
			fmt.Printf("\ncancelled: %s\n", p.Reason)
		}
	}
	return nil
}
