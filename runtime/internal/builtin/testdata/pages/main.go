// Command pages is a runtime with the tool fetch for the attacks of tools/soak: pages UPSTREAM.
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/seed93082962/agenthost/filesafe"
	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/internal/builtin"
	"github.com/seed93082962/agenthost/runtime/session"
	"github.com/seed93082962/agenthost/runtime/tool"
)

// fetch is WebFetch under another name, with a client that connects to loopback addresses. The
// runtime's own rejects them.
type fetch struct{ tool.Tool }

func (f fetch) Spec() tool.Spec {
	spec := f.Tool.Spec()
	spec.Name = "Fetch"
	return spec
}

func main() {
	dir, err := filesafe.Open(".")
	if err != nil {
		log.Fatal(err)
	}
	tools := builtin.Tools(builtin.Config{Dir: dir, Client: &http.Client{}})
	var added []tool.Tool
	for _, t := range tools {
		if t.Spec().Name == "WebFetch" {
			added = append(added, fetch{t})
		}
	}
	bot := agent.Agent{ID: "bot", Model: "m", PermissionMode: "bypassPermissions", Provider: agent.Provider{Protocol: agent.ProtocolOpenAI, BaseURL: agent.Secret(os.Args[1]), APIKey: "k"}}
	rt, err := runtime.New(context.Background(), runtime.Config{Agents: []agent.Agent{bot}, Tools: added, Limits: agent.Limits{ToolTimeout: 5 * time.Second},
		Sessions: session.NewMemory(session.MemoryConfig{MaxBytes: 8 << 20})})
	if err != nil {
		log.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("listening on http://%s\n", l.Addr())
	log.Fatal(http.Serve(l, rt))
}
