package runtimecmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/seed93082962/agenthost/internal/builtintool"
	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/tool"
	"github.com/seed93082962/agenthost/runtime/tool/mcp"
)

// errCheck is the error of a configuration that is served with parts missing. The output names
// them.
var errCheck = errors.New("the configuration has problems")

// examined has the findings of a check while agents are resolved, in addition to their status.
type examined struct {
	mu     sync.Mutex // guards the fields below
	tools  []string   // names of the custom tools
	faults []string   // of MCP servers
}

// loaded makes a runtime record its custom tools, and examine its MCP servers instead of starting
// them.
func (x *examined) loaded(cfg *runtime.Config, servers *mcp.Connector) {
	load := cfg.LoadTool
	cfg.LoadTool = func(ctx context.Context, def agent.CustomTool) (tool.Tool, error) {
		t, err := load(ctx, def)
		if err == nil {
			x.mu.Lock()
			defer x.mu.Unlock()
			x.tools = append(x.tools, t.Spec().Name)
		}

		return t, err
	}
	cfg.OpenMCP = func(name string, def agent.MCPServer, limits agent.Limits, box tool.Confiner) (tool.Server, error) {
		s, err := servers.Open(name, def, limits, box)
		if err == nil {
			err = errors.Join(servers.CheckCommand(def), s.Close()) // a closed server does not connect
		}

		if err != nil {
			x.mu.Lock()
			defer x.mu.Unlock()
			x.faults = append(x.faults, fmt.Sprintf("mcp server %s: %v", name, err))
		}

		return s, err
	}
}

// unknownTools returns the names in the lists of an agent that no tool has.
func (x *examined) unknownTools(def *agent.Agent) []string {
	known := slices.Clone(x.tools)
	for _, t := range builtintool.All() {
		known = append(known, t.Name)
	}

	lists := [][]string{def.AllowedTools, def.DisallowedTools}
	for _, sub := range def.Subagents {
		lists = append(lists, sub.Tools, sub.DisallowedTools)
	}

	var unknown []string
	for _, rule := range slices.Concat(lists...) {
		name, _, _ := strings.Cut(strings.TrimSpace(rule), "(")
		name = strings.TrimSpace(name)
		ok := slices.Contains(known, name)
		if rest, of := strings.CutPrefix(name, "mcp__"); of {
			server, _, _ := strings.Cut(rest, "__") // its tools are known only when it is connected
			_, ok = def.MCPServers[server]
		}

		if !ok && !slices.Contains(unknown, name) {
			unknown = append(unknown, name)
		}
	}

	return unknown
}

// report prints the faults, and returns an error if there are some.
func (x *examined) report(file *agent.File, unavailable map[string]error, stdout io.Writer) error {
	failed := len(unavailable) > 0
	for i := range file.Agents {
		for _, name := range x.unknownTools(&file.Agents[i]) {
			failed = true
			fmt.Fprintf(stdout, "%s: there is no tool %q\n", file.Agents[i].ID, name)
		}
	}

	for _, line := range x.faults {
		failed = true
		fmt.Fprintln(stdout, strings.ReplaceAll(line, "\n", "; "))
	}

	if failed {
		return errCheck
	}

	return nil
}
