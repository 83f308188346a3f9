package js_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/tool/js"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// A runtime whose agent has a tool from a file. The message makes the demo model call it.
func Example_runtime() {
	dir, err := os.MkdirTemp("", "tools")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "shout.ts")
	err = os.WriteFile(path, []byte(`
		export default defineTool({
			name: "shout",
			description: "Says it loudly.",
			inputSchema: {type: "object", properties: {text: {type: "string"}}},
			call: ({text}: {text: string}) => text.toUpperCase() + "!",
		})`), 0o600)
	if err != nil {
		panic(err)
	}

	host, err := js.New(js.Config{})
	if err != nil {
		panic(err)
	}
	defer host.Close()
	ctx := context.Background()
	rt, err := runtime.New(ctx, runtime.Config{
		Agents: []agent.Agent{{
			ID: "helper", Model: "demo", Provider: agent.Provider{Protocol: agent.ProtocolDemo},
			AllowedTools: []string{"shout"},
			CustomTools:  []agent.CustomTool{{Name: "shout", Path: path}},
		}},
		LoadTool: host.Load,
	})
	if err != nil {
		panic(err)
	}
	defer rt.Close()
	for event, err := range rt.Run(ctx, "helper", wire.RunRequest{Message: `/tool shout {"text":"hello"}`}) {
		if err != nil {
			panic(err)
		}
		if p, ok := event.Payload.(*wire.ToolResult); ok {
			fmt.Println(p.Result.ToolName, p.Result.Output)
		}
	}
	// Output: shout HELLO!
}
