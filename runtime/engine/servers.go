package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/seed93082962/agenthost/runtime/tool"
	"github.com/seed93082962/agenthost/runtime/wire"
)

var errConnectTimeout = errors.New("the server did not connect in time")

// knownTools returns the names of the tools that are offered to the model. It includes the tools of
// servers only if all servers are already connected.
func (r *run) knownTools() []string {
	names := r.tools.names
	unconnected := func(s wire.MCPStatus) bool { return s.Status != string(tool.Connected) }
	if last := r.engine.merged.Load(); last != nil && r.tools == r.engine.tools && !slices.ContainsFunc(r.servers, unconnected) {
		names = last.names
	}
	return append([]string{}, names...)
}

// maxWarnings limits the number of events about tools that are left out.
const maxWarnings = 10

// warnLeftOut emits an event for each tool that is left out.
func (r *run) warnLeftOut() {
	messages := r.tools.leftOut
	if more := len(messages) - maxWarnings; more > 0 {
		messages = append(slices.Clone(messages[:maxWarnings]), fmt.Sprintf("%d more tools are left out.", more))
	}
	for _, message := range messages {
		r.out.Emit(&wire.System{Type: "system", Subtype: wire.SystemWarning, Message: message})
	}
}

// connectServers waits for all servers and adds their tools to the run. If a server fails, the run
// emits an event and continues without that server.
func (r *run) connectServers(ctx context.Context) error {
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
	for range servers {
		r.out.Flush()
		l := <-connected
		status := wire.System{Type: "system", Subtype: wire.SystemMCPStatus, Name: servers[l.index].Name(), Status: string(tool.Connected)}
		switch {
		case ctx.Err() != nil:
			continue
		case l.err != nil:
			if errors.Is(context.Cause(waiting), errConnectTimeout) && errors.Is(l.err, waiting.Err()) {
				l.err = fmt.Errorf("%w: %v", errConnectTimeout, limit)
			}
			status.Status, status.Error = string(tool.Failed), l.err.Error()
			r.engine.cfg.Logger.Warn("MCP server failed", "mcp_server", status.Name, "err", l.err, "run_id", r.in.RunID)
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
