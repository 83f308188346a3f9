// Command model hosts an agent whose model is written in Go, runs it once and prints the events:
//
//	go run ./examples/model
//
// A model for a real server sends req to it and yields its response in parts, as they arrive.
package main

import (
	"context"
	"fmt"
	"iter"
	"log"
	"strings"

	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// shout repeats the last message in upper case, word by word.
type shout struct{}

func (shout) Stream(ctx context.Context, req *model.Request) iter.Seq2[model.Part, error] {
	return func(yield func(model.Part, error) bool) {
		last := req.Messages[len(req.Messages)-1].Text()
		if last == "" {
			yield(model.Part{}, &model.Error{Code: "invalid_request", Message: "there is nothing to repeat"})
			return
		}
		for _, word := range strings.Fields(last) {
			if ctx.Err() != nil { // the run was cancelled
				yield(model.Part{}, context.Cause(ctx))
				return
			}
			if !yield(model.Part{Kind: model.KindText, Text: strings.ToUpper(word) + " "}, nil) {
				return
			}
		}
		yield(model.Part{Kind: model.KindStop, StopReason: model.StopEndTurn}, nil)
	}
}

func main() {
	if err := demonstrate(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func demonstrate(ctx context.Context) error {
	rt, err := runtime.New(ctx, runtime.Config{
		Agents: []agent.Agent{{ID: "echo", Model: "shout-1"}},
		NewModel: func(agent.Provider) (model.Model, error) { // for each agent; nil is the built-in adapter
			return shout{}, nil
		},
	})
	if err != nil {
		return err
	}
	defer rt.Close()
	for event, err := range rt.Run(ctx, "echo", wire.RunRequest{Message: "hello from a model in Go"}) {
		if err != nil {
			return err
		}
		switch p := event.Payload.(type) {
		case *wire.PartialMessage:
			fmt.Print(p.Partial.Text)
		case *wire.Result:
			fmt.Printf("\n%s after %d turns\n", p.Subtype, p.NumTurns)
		}
	}
	return nil
}
