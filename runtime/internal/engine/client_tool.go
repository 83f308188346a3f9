package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/seed93082962/agenthost/internal/toolschema"
	"github.com/seed93082962/agenthost/runtime/tool"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// clientTool is a tool that the client of the run calls.
type clientTool struct{ spec tool.Spec }

func (t clientTool) Spec() tool.Spec { return t.spec }

// Call implements tool.Tool. It is not used: its calls wait.
func (clientTool) Call(context.Context, tool.Call) (tool.Result, error) {
	return tool.Result{}, errors.New("the client of the run calls this tool")
}

// serverPrefix is that of the tools of servers.
const serverPrefix = "mcp__"

// reserved are names that only tools of the runtime have: permission rules read their inputs.
var reserved = []string{
	"Read", "Write", "Edit", "Glob", "Grep", "Bash", "WebFetch", "TodoWrite", "Skill", "Task", "ListMcpResources", "ReadMcpResource",
	outputTool,
}

// CheckClientTools returns why the tools of a client cannot be used next to those of the agent.
// Their names are valid and differ from each other.
func (e *Engine) CheckClientTools(tools []wire.ClientTool) error {
	taken := map[string]bool{}
	for _, name := range reserved {
		taken[strings.ToLower(name)] = true
	}

	for name := range e.tools.entries {
		taken[strings.ToLower(name)] = true
	}

	for i := range tools {
		if name := tools[i].Name; taken[strings.ToLower(name)] {
			return fmt.Errorf("clientTools[%d].name is that of a tool of the agent", i)
		}
	}

	return nil
}

// addClientTools adds the tools of the client to those of the run.
func (r *runState) addClientTools() error {
	if len(r.in.ClientTools) == 0 {
		return nil
	}

	all := &toolset{
		entries: maps.Clone(r.tools.entries), order: slices.Clone(r.tools.order),
		leftOut: slices.Clip(r.tools.leftOut), instructions: r.tools.instructions,
	}
	budget := new(toolschema.Budget)
	for i := range r.in.ClientTools {
		t := &r.in.ClientTools[i]
		spec := tool.Spec{Name: t.Name, Description: t.Description, InputSchema: t.InputSchema}
		e, err := newEntry(clientTool{spec}, kindClient, budget)
		if rejected, ok := errors.AsType[*schemaError](err); ok {
			all.leftOut = append(all.leftOut, rejected.Error())
			continue
		}

		if err != nil {
			return err
		}

		e.label = kindClient // clients may choose any number of names
		all.add(e)
	}

	all.offer(&r.engine.cfg)
	r.tools = all
	return nil
}
