package js_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/tool"
	"github.com/seed93082962/agenthost/runtime/tool/js"
)

// The main function of this program begins as in the package comment, so that it is its own worker.
func Example() {
	dir, err := os.MkdirTemp("", "tools")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "greet.ts")
	err = os.WriteFile(path, []byte(`
		interface Input { name?: string }
		export default defineTool({
			name: "greet",
			description: "Greets somebody.",
			inputSchema: {type: "object", properties: {name: {type: "string"}}},
			async call({name}: Input) {
				if (!name) throw new TypeError("whom?")
				return "Hello, " + name + "!"
			},
		})`), 0o600)
	if err != nil {
		fmt.Println(err)
		return
	}

	host, err := js.New(js.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer host.Close()
	greet, err := host.Load(context.Background(), agent.CustomTool{Path: path})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(greet.Spec().Name, string(greet.Spec().InputSchema))
	for _, input := range []string{`{"name":"Ada"}`, `{}`} {
		result, err := greet.Call(context.Background(), tool.Call{Input: json.RawMessage(input)})
		fmt.Println(result.Output, result.IsError, err)
	}
	// Output:
	// greet {"type":"object","properties":{"name":{"type":"string"}}}
	// Hello, Ada! false <nil>
	// TypeError: whom?
	//     at call (greet.ts:8:26) true <nil>
}
