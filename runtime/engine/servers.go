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

// Servers tells how the servers stood when the run was made.
func (r *Run) Servers() []wire.MCPStatus { return append([]wire.MCPStatus{}, r.servers...) }

// Tools returns the names of the tools that the model is offered as far as they are known: those of
// servers are once all of them are connected.
func (r *Run) Tools() []string {
	names := r.tools.names
	down := func(s wire.MCPStatus) bool { return s.Status != string(tool.Connected) }
	if last := r.engine.merged.Load(); last != nil && r.tools == r.engine.own && !slices.ContainsFunc(r.servers, down) {
		names = last.names
	}
	return append([]string{}, names...)
}

// connect waits for the servers, side by side, and takes their tools into the run. One that fails
// is told of, and the run goes on without it.
func (r *Run) connect(ctx context.Context, yield func(wire.Event) bool) error {
	servers := r.engine.cfg.Servers
	if len(servers) == 0 {
		return nil
	}
	limit := r.engine.cfg.ConnectTimeout
	waiting, cancel := context.WithTimeoutCause(ctx, limit, errConnectTimeout)
	defer cancel()
	type answer struct {
		index int
		tools []tool.Tool
		err   error
	}
	answers := make(chan answer, len(servers))
	for i, s := range servers {
		go func() {
			tools, err := s.Tools(waiting)
			answers <- answer{i, tools, err}
		}()
	}
	lists := make([][]tool.Tool, len(servers))
	stopped := false
	for range servers {
		a := <-answers
		status := wire.System{Type: "system", Subtype: wire.SystemMCPStatus, Name: servers[a.index].Name(), Status: string(tool.Connected)}
		switch {
		case stopped || ctx.Err() != nil:
			continue
		case a.err != nil:
			if errors.Is(context.Cause(waiting), errConnectTimeout) && errors.Is(a.err, waiting.Err()) {
				a.err = fmt.Errorf("%w: %v", errConnectTimeout, limit)
			}
			status.Status, status.Error = string(tool.Failed), a.err.Error()
			r.engine.cfg.Logger.Warn("MCP server failed", "server", status.Name, "err", a.err, "runId", r.in.RunID)
		default:
			lists[a.index] = a.tools
			if r.servers[a.index].Status == status.Status {
				continue
			}
		}
		if !yield(wire.Event{Payload: &status}) {
			stopped = true
			cancel()
		}
	}
	switch {
	case stopped:
		return errStopped
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	r.tools = r.engine.with(lists)
	return nil
}
