package confine_test

import (
	"context"
	"fmt"
	"net/http"

	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/tool/confine"
)

func ExampleNew() {
	const dir = "/srv/work"
	boxes, err := confine.New(confine.Config{CWD: dir, Dir: "/var/lib/agents", Home: "/home/agents"})
	if err != nil {
		fmt.Println(err)
		return
	}
	rt, err := runtime.New(context.Background(), runtime.Config{
		CWD:         dir,
		OpenSandbox: boxes.Open,
		Agents: []agent.Agent{{
			ID: "builder", Model: "demo", Provider: agent.Provider{Protocol: agent.ProtocolDemo},
			Sandbox: agent.Sandbox{Mode: "required", Domains: []string{"*.npmjs.org"}},
		}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Close()
	http.Handle("/", rt)
}
