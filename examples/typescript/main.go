// Command typescript runs a tool that is written in TypeScript, in a worker process:
//
//	go run ./examples/typescript
//
// cmd/runtime needs no program for that, only the file in agents.yaml:
//
//	customTools: [{path: word_count.ts}]
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/tool/js"
	"github.com/seed93082962/agenthost/runtime/tool/js/worker"
	"github.com/seed93082962/agenthost/runtime/wire"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == js.WorkerArg { // the worker is this program too
		if worker.Run(os.Stdin, os.Stdout) != nil {
			os.Exit(1)
		}
		return
	}
	if err := demonstrate(context.Background(), "examples/typescript/word_count.ts"); err != nil {
		log.Fatal(err)
	}
}

func demonstrate(ctx context.Context, path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	host, err := js.New(js.Config{})
	if err != nil {
		return err
	}
	defer host.Close()
	rt, err := runtime.New(ctx, runtime.Config{
		Agents: []agent.Agent{{
			ID: "counter", Model: "demo", Provider: agent.Provider{Protocol: agent.ProtocolDemo},
			AllowedTools: []string{"word_count"},
			CustomTools:  []agent.CustomTool{{Name: "word_count", Path: path}},
		}},
		LoadTool: host.Load,
	})
	if err != nil {
		return err
	}
	defer rt.Close()
	for event, err := range rt.Run(ctx, "counter", wire.RunRequest{Message: `/tool word_count {"text": "one two three"}`}) {
		if err != nil {
			return err
		}
		if p, ok := event.Payload.(*wire.ToolResult); ok {
			fmt.Println(p.Result.ToolName, p.Result.Output)
		}
	}
	return nil
}
