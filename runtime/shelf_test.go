package runtime_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/seed93082962/agenthost/internal/agentvalue"
	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/tool"
)

// shelf is a server with tools of this process. Servers of other processes have tests in
// runtime/tool/mcp and runtime/host.
type shelf struct {
	name  string
	list  *tool.List
	down  atomic.Bool // it cannot be connected
	mu    sync.Mutex  // guards the fields below
	state tool.Status
	fault error
}

// openShelves makes servers of a configuration shelves.
func openShelves(c *runtime.Config, shelves ...*shelf) {
	all := map[string]*shelf{}
	c.Agents[0].MCPServers = map[string]agent.MCPServer{}
	for _, s := range shelves {
		s.state, all[s.name] = tool.Pending, s
		c.Agents[0].MCPServers[s.name] = agent.MCPServer{Transport: agentvalue.TransportHTTP, URL: "https://mcp.example/mcp"}
	}
	c.OpenMCP = func(name string, _ agent.MCPServer, _ agent.Limits, _ tool.Confiner) (tool.Server, error) {
		return all[name], nil
	}
}

func (s *shelf) Name() string { return s.name }

func (s *shelf) Status() tool.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

func (s *shelf) Fault() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fault
}

func (s *shelf) Tools(context.Context) (*tool.List, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down.Load() {
		s.state, s.fault = tool.Failed, fmt.Errorf("mcp server %s: connection refused", s.name)
		return nil, s.fault
	}
	s.state, s.fault = tool.Connected, nil
	return s.list, nil
}

func (s *shelf) Close() error { return nil }

// answering is a tool of a shelf that returns a text.
func answering(name, description, schema string, answer func(input map[string]string) string) tool.Tool {
	spec := tool.Spec{Name: name, Description: description, InputSchema: json.RawMessage(schema)}
	return tool.Func(spec, func(_ context.Context, in map[string]string) (string, error) { return answer(in), nil })
}
