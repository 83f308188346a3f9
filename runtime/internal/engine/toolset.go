package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/internal/toolschema"
	"github.com/seed93082962/agenthost/runtime/internal/permission"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/tool"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// toolset is the set of tools that a run may call. Some or all of them are offered to the model.
type toolset struct {
	entries map[string]*offeredTool
	order   []string // the names of the entries, by precedence
	offered []model.Tool
	names   []string // of the offered tools, sorted

	// leftOut has one sentence for each tool that is left out: because of its input schema, or for
	// the reason that its server gives. One sentence names all tools over the limit of the model.
	leftOut []string

	instructions string // of the servers, with their names
}

// offeredTool is a tool that the model may call.
type offeredTool struct {
	tool.Tool
	spec   tool.Spec
	schema *toolschema.Schema // nil if the tool validates its inputs itself
	kind   string             // in metrics
	label  string             // in metrics: its name, or that of its server
}

func newEntry(t tool.Tool, kind string, budget *toolschema.Budget) (*offeredTool, error) {
	spec := t.Spec()
	if !validName(spec.Name) {
		return nil, fmt.Errorf("tool name %q is not of the form ^[A-Za-z0-9_-]{1,64}$", spec.Name)
	}

	if spec.Name == outputTool {
		return nil, fmt.Errorf("tool name %q is that of a tool of the runtime", spec.Name)
	}

	if len(spec.InputSchema) == 0 {
		spec.InputSchema = []byte(`{"type":"object"}`)
	}

	if err := json.Unmarshal(spec.InputSchema, &map[string]json.RawMessage{}); err != nil {
		return nil, fmt.Errorf("input schema of tool %q is not a JSON object: %w", spec.Name, err)
	}

	if _, err := toolschema.Fit(spec.InputSchema); err != nil {
		return nil, &schemaError{spec.Name, err} // the APIs of models would reject every request with the tool
	}

	compiled, err := budget.Compile(spec.InputSchema)
	if err != nil && !errors.Is(err, toolschema.ErrUnsupported) {
		return nil, &schemaError{spec.Name, err}
	}

	return &offeredTool{Tool: t, spec: spec, schema: compiled, kind: kind, label: spec.Name}, nil
}

func (e *offeredTool) permissionTool() permission.Tool {
	return permission.Tool{Name: e.spec.Name, Original: e.spec.Original, ReadOnly: e.spec.ReadOnly}
}

// schemaError is the error of a tool whose input schema is rejected. A toolset omits such a tool.
// newToolset returns any other error of a tool.
type schemaError struct {
	tool string
	err  error
}

func (e *schemaError) Error() string {
	return fmt.Sprintf("The tool %q is left out because of its input schema: %v.", e.tool, e.err)
}

func validName(name string) bool { return ids.Plain(name, 64) && !strings.Contains(name, ".") }

// newToolset returns the set of the tools of cfg, except those of servers. Their names must be
// different.
func newToolset(cfg *Config) (*toolset, error) {
	s := &toolset{entries: make(map[string]*offeredTool, len(cfg.Builtin)+len(cfg.Tools))}
	budget := new(toolschema.Budget)
	add := func(kind string, tools ...tool.Tool) error {
		for _, t := range tools {
			e, err := newEntry(t, kind, budget)
			if rejected, ok := errors.AsType[*schemaError](err); ok {
				s.reject(rejected, cfg.Logger)
				continue
			}

			if err != nil {
				return err
			}

			if _, ok := s.entries[e.spec.Name]; ok {
				return fmt.Errorf("two tools are named %q", e.spec.Name)
			}

			s.add(e)
		}

		return nil
	}
	if len(cfg.Subagents) > 0 {
		task, err := newTask(cfg.Subagents)
		if err == nil {
			err = add(kindTask, task)
		}

		if err != nil {
			return nil, err
		}
	}

	if err := add(kindBuiltin, cfg.Builtin...); err != nil {
		return nil, err
	}

	if err := add(kindCustom, cfg.Tools...); err != nil {
		return nil, err
	}

	s.offer(cfg)
	return s, nil
}

func (s *toolset) add(e *offeredTool) {
	s.entries[e.spec.Name] = e
	s.order = append(s.order, e.spec.Name)
}

// reject records and logs that a tool is omitted because of its schema.
func (s *toolset) reject(err *schemaError, log *slog.Logger) {
	s.leftOut = append(s.leftOut, err.Error())
	log.Warn("tool is left out because of its input schema", "tool", err.tool, "err", err.err)
}

// offer selects the tools that are offered to the model, the first ones if its upstream has a
// limit. They are sorted, because upstream can cache the prefix of a prompt only if it is the same
// in each call.
func (s *toolset) offer(cfg *Config) {
	limit := 0
	if m, ok := cfg.Model.(model.ToolLimiter); ok {
		limit = m.MaxTools(cfg.Request.Model)
	}

	var surplus []string
	for _, name := range s.order {
		switch {
		case s.entries[name].kind != kindOutput && !cfg.Policy.Offers(s.entries[name].permissionTool()):
		case limit > 0 && len(s.names) == limit:
			surplus = append(surplus, name)
			delete(s.entries, name)
		default:
			s.names = append(s.names, name)
		}
	}

	if len(surplus) > 0 {
		s.order = slices.DeleteFunc(s.order, func(name string) bool { return s.entries[name] == nil })
		message := fmt.Sprintf("The upstream of the model accepts %d tools: %s", limit, strings.Join(surplus[:min(len(surplus), maxWarnings)], ", "))
		if more := len(surplus) - maxWarnings; more > 0 {
			message += fmt.Sprintf(" and %d more", more)
		}

		message += " are left out. Rules in disallowedTools select others."
		s.leftOut = append(s.leftOut, message)
		cfg.Logger.Warn("tools are left out because of their number", "err", message)
	}

	slices.Sort(s.names)
	s.offered = make([]model.Tool, len(s.names))
	for i, name := range s.names {
		spec := &s.entries[name].spec
		s.offered[i] = model.Tool{Name: name, Description: spec.Description, InputSchema: spec.InputSchema}
	}
}

// mergedTools are the tools of an engine together with those of its servers.
type mergedTools struct {
	*toolset
	lists []*tool.List // of the servers; nil for one that failed
}

// withServers returns the tools of the engine together with those of its servers. Runs share one
// set until the list of a server changes. One run at a time compiles the schemas, which may take
// seconds.
func (e *Engine) withServers(ctx context.Context, lists []*tool.List) (*toolset, error) {
	select {
	case e.merging <- struct{}{}:
		defer func() { <-e.merging }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}

	if last := e.merged.Load(); last != nil && slices.Equal(last.lists, lists) {
		return last.toolset, nil
	}

	all := &toolset{entries: maps.Clone(e.tools.entries), order: slices.Clone(e.tools.order), leftOut: slices.Clip(e.tools.leftOut)}
	for _, t := range e.resourcesOf(ctx, lists).tools() {
		entry, err := newEntry(t, kindMCP, new(toolschema.Budget))
		if err != nil {
			return nil, err
		}

		if all.entries[entry.spec.Name] == nil { // a tool of the program that embeds the runtime may have the name
			all.add(entry)
		}
	}

	for i, list := range lists {
		if list == nil {
			continue
		}

		all.leftOut = append(all.leftOut, list.LeftOut...)
		if list.Instructions != "" {
			all.instructions += fmt.Sprintf("\n\nInstructions of the MCP server %s:\n%s", e.cfg.Servers[i].Name(), list.Instructions)
		}

		budget := new(toolschema.Budget)
		first := len(all.order)
		for _, t := range list.Tools {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}

			entry, err := newEntry(t, kindMCP, budget)
			if rejected, ok := errors.AsType[*schemaError](err); ok {
				all.reject(rejected, e.cfg.Logger)
				continue
			}

			if err == nil && all.entries[entry.spec.Name] != nil {
				err = fmt.Errorf("two tools are named %q", entry.spec.Name)
			}

			if err != nil {
				e.cfg.Logger.Warn("tool of a server is left out", "err", err)
				continue
			}

			entry.label = "mcp__" + e.cfg.Servers[i].Name() // a server may have any number of tools, and others later
			all.add(entry)
		}

		slices.Sort(all.order[first:])
	}

	all.offer(&e.cfg)
	e.merged.Store(&mergedTools{all, lists})
	return all, nil
}

var errConnectTimeout = errors.New("the server did not connect in time")

// knownTools returns the names of the tools that are offered to the model. It includes the tools of
// servers only if all servers are already connected.
func (r *runState) knownTools() []string {
	names := r.tools.names
	unconnected := func(s wire.MCPStatus) bool { return s.Status != string(tool.Connected) }
	if last := r.engine.merged.Load(); last != nil && r.tools == r.engine.tools && !slices.ContainsFunc(r.servers, unconnected) {
		names = last.names
	}

	names = append([]string{}, names...)
	for i := range r.in.ClientTools {
		t := permission.Tool{Name: r.in.ClientTools[i].Name}
		if r.engine.cfg.Policy.Offers(t) {
			names = append(names, t.Name)
		}
	}

	slices.Sort(names)
	return names
}

// maxWarnings limits the number of events about tools that are left out.
const maxWarnings = 10

// warnLeftOut emits an event for each tool that is left out.
func (r *runState) warnLeftOut() {
	messages := r.tools.leftOut
	if more := len(messages) - maxWarnings; more > 0 {
		messages = append(slices.Clone(messages[:maxWarnings]), fmt.Sprintf("%d more tools are left out.", more))
	}

	for _, message := range messages {
		r.out.Emit(&wire.System{Type: "system", Subtype: runvalue.SystemWarning, Message: message})
	}
}

// connectServers waits for all servers and adds their tools to the run. If a server fails, the run
// emits an event and continues without that server.
func (r *runState) connectServers(ctx context.Context) error {
	servers := r.engine.cfg.Servers
	if len(servers) == 0 || ctx.Err() != nil {
		return context.Cause(ctx)
	}

	limit := r.engine.cfg.ConnectTimeout
	waiting, cancel := context.WithTimeoutCause(ctx, limit, errConnectTimeout)
	defer cancel()
	type list struct {
		index int
		tools *tool.List
		err   error
	}
	connected := make(chan list, len(servers))
	r.out.Flush() // a client receives the first event before a server starts
	for i, s := range servers {
		go func() {
			tools, err := s.Tools(waiting)
			connected <- list{i, tools, err}
		}()
	}

	lists := make([]*tool.List, len(servers)) // nil for a server that failed
	defer r.engine.metrics.wait(waitServer)()
	for range servers {
		r.out.Flush()
		l := <-connected
		status := wire.System{Type: "system", Subtype: runvalue.SystemMCPStatus, Name: servers[l.index].Name(), Status: string(tool.Connected)}
		switch {
		case ctx.Err() != nil:
			continue
		case l.err != nil:
			if errors.Is(context.Cause(waiting), errConnectTimeout) && errors.Is(l.err, waiting.Err()) {
				l.err = fmt.Errorf("%w: %v", errConnectTimeout, limit)
			}

			status.Status, status.Error = string(tool.Failed), l.err.Error()
			if errors.Is(l.err, tool.ErrStarting) {
				status.Status = string(tool.Pending)
			}

			r.engine.cfg.Logger.Warn("MCP server is missing in a run", "mcp_server", status.Name, "err", l.err, "run_id", r.in.RunID)
		default:
			lists[l.index] = l.tools
			if r.servers[l.index].Status == status.Status {
				continue
			}
		}

		r.out.Emit(&status)
	}

	if ctx.Err() != nil {
		return context.Cause(ctx)
	}

	tools, err := r.engine.withServers(ctx, lists)
	if err == nil {
		r.tools = tools
	}

	return err
}
