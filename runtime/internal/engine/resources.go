package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/seed93082962/agenthost/internal/jsonlimit"
	"github.com/seed93082962/agenthost/runtime/internal/permission"
	"github.com/seed93082962/agenthost/runtime/tool"
)

// resources are the [tool.List.Resources] of servers, by name.
type resources map[string]func(ctx context.Context, call tool.Call, uri string) (tool.Result, error)

// resourcesOf returns the servers that have resources. Those of a server are denied by a rule that
// denies all of its tools.
func (e *Engine) resourcesOf(ctx context.Context, lists []*tool.List) resources {
	found := resources{}
	for i, list := range lists {
		name := e.cfg.Servers[i].Name()
		_, err := e.cfg.Policy.Check(ctx, permission.Tool{Name: "mcp__" + name + "__", ReadOnly: true}, []byte("{}"))
		if list != nil && list.Resources != nil && !errors.Is(err, permission.ErrDenied) {
			found[name] = list.Resources
		}
	}

	return found
}

// tools returns the tools that list and read resources, or none without servers. Reading sends the
// address to the server and may have any effect there, as the call of a tool.
func (r resources) tools() []tool.Tool {
	if len(r) == 0 {
		return nil
	}

	names := strings.Join(slices.Sorted(maps.Keys(r)), ", ")
	list := tool.Spec{
		Name: "ListMcpResources", ReadOnly: true,
		Description: "Lists the resources of MCP servers, which ReadMcpResource reads: one JSON object a line. " +
			"The variables of a uriTemplate are replaced with values. Servers with resources: " + names + ".",
		InputSchema: []byte(`{"type":"object","properties":{"server":{"type":"string","description":"the name of a server; all of them by default"}}}`),
	}
	read := tool.Spec{
		Name:        "ReadMcpResource",
		Description: "Reads a resource of an MCP server. Servers with resources: " + names + ".",
		InputSchema: []byte(`{"type":"object","properties":{"server":{"type":"string","description":"the name of the server"},` +
			`"uri":{"type":"string","description":"the uri of the resource"}},"required":["server","uri"]}`),
	}
	return []tool.Tool{tool.New(list, r.list), tool.New(read, r.read)}
}

func (r resources) list(ctx context.Context, call tool.Call) (tool.Result, error) {
	var in struct {
		Server string `json:"server"`
	}
	if err := jsonlimit.Unmarshal(call.Input, &in); err != nil {
		return tool.Result{}, err
	}

	servers := slices.Sorted(maps.Keys(r))
	if in.Server != "" {
		servers = []string{in.Server}
	}

	var all tool.Result
	var parts []string
	for _, server := range servers {
		part, err := r.of(ctx, call, server, "")
		all.Truncated = all.Truncated || part.Truncated
		if ctx.Err() != nil || err != nil && len(servers) == 1 {
			all.Output = strings.Join(append(parts, part.Output), "\n") // with the lists so far
			return all, err
		}

		if err != nil {
			part.Output, part.IsError = err.Error(), true
		}

		parts = append(parts, part.Output)
		all.IsError = all.IsError || part.IsError
	}

	all.Output = strings.Join(parts, "\n")
	return all, nil
}

func (r resources) read(ctx context.Context, call tool.Call) (tool.Result, error) {
	var in struct {
		Server string `json:"server"`
		URI    string `json:"uri"`
	}
	if err := jsonlimit.Unmarshal(call.Input, &in); err != nil {
		return tool.Result{}, err
	}

	if in.URI == "" {
		return tool.Result{}, errors.New("uri is missing")
	}

	return r.of(ctx, call, in.Server, in.URI)
}

func (r resources) of(ctx context.Context, call tool.Call, server, uri string) (tool.Result, error) {
	if r[server] == nil {
		return tool.Result{}, fmt.Errorf("there is no server %.80q with resources: the servers are %s", server, strings.Join(slices.Sorted(maps.Keys(r)), ", "))
	}

	return r[server](ctx, call, uri)
}
