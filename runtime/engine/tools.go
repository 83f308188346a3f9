package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/tool"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// stopGrace is how long a tool whose time is over gets to stop before the run goes on without
// it. The run does not end before the tool has.
const stopGrace = 5 * time.Second

var errToolTimeout = errors.New("tool call took too long")

// result is what became of one call.
type result struct {
	index     int
	output    string
	isError   bool
	truncated bool
	took      time.Duration
	denied    string // why the call was refused
}

// runTools runs the calls of one answer and yields an event as each ends. Neighbouring calls to
// read-only tools run side by side, the others in their order. The message it returns has a
// result for each call, in the order of the calls, also when there is an error.
func (r *Run) runTools(ctx context.Context, calls []model.Block, yield func(wire.Event) bool) (model.Message, error) {
	message := model.Message{Role: model.RoleUser, Content: make([]model.Block, len(calls))}
	for i := range calls {
		message.Content[i] = model.Block{Type: model.BlockToolResult, ID: calls[i].ID, Text: interrupted, IsError: true}
	}
	for from := 0; from < len(calls); {
		to := from + 1
		for r.readOnly(&calls[from]) && to < len(calls) && r.readOnly(&calls[to]) {
			to++
		}
		err := r.batch(ctx, calls[from:to], func(res result) {
			b := &message.Content[from+res.index]
			b.Text, b.IsError = res.output, res.isError
		}, yield)
		if err != nil {
			return message, err
		}
		from = to
	}
	return message, nil
}

func (r *Run) readOnly(call *model.Block) bool { return r.engine.tools[call.Name].spec.ReadOnly }

// batch starts all the calls, keeps their results as they come and yields their events. Of calls
// that end after ctx, the results are kept that are none of its end.
func (r *Run) batch(ctx context.Context, calls []model.Block, keep func(result), yield func(wire.Event) bool) error {
	results := make(chan result, len(calls))
	toolCtx, cancel := context.WithTimeoutCause(ctx, r.engine.cfg.ToolTimeout, errToolTimeout)
	defer cancel()
	for i := range calls {
		r.calls.add(&calls[i])
		go func() {
			defer r.calls.done(&calls[i])
			begin := time.Now()
			res := r.call(toolCtx, &calls[i])
			res.index, res.took = i, time.Since(begin)
			results <- res
		}()
	}
	late := time.NewTimer(r.engine.cfg.ToolTimeout + stopGrace)
	defer late.Stop()
	finished := make([]bool, len(calls))
	tell := func(res result) bool {
		finished[res.index] = true
		keep(res)
		return r.tell(&calls[res.index], res, yield)
	}
	for left := len(calls); left > 0; left-- {
		select {
		case res := <-results:
			if ctx.Err() == nil {
				if !tell(res) {
					return errStopped
				}
				continue
			}
			results <- res // there is room: it came from there
		case <-ctx.Done():
		case <-late.C:
			for i := range calls {
				if !finished[i] && !tell(r.timedOut(result{index: i, took: r.engine.cfg.ToolTimeout + stopGrace})) {
					return errStopped
				}
			}
			return nil
		}
		r.settle()
		for range left {
			if res := <-results; !res.isError {
				keep(res)
			}
		}
		return context.Cause(ctx)
	}
	return nil
}

// call runs one call, whatever the tool does.
func (r *Run) call(ctx context.Context, call *model.Block) (res result) {
	e, ok := r.engine.tools[call.Name]
	if !ok {
		known := "there are none"
		if len(r.engine.names) > 0 {
			known = "there are: " + strings.Join(r.engine.names, ", ")
		}
		return result{output: fmt.Sprintf("There is no tool %q; %s.", call.Name, known), isError: true}
	}
	if call.BadInput != "" {
		err := json.Unmarshal([]byte(call.BadInput), &map[string]json.RawMessage{})
		return result{output: fmt.Sprintf("The input is not a JSON object: %v.", err), isError: true}
	}
	if err := r.engine.cfg.Policy.Check(call.Name, e.spec.ReadOnly, call.Input); err != nil {
		return result{output: fmt.Sprintf("Permission to use %s was refused: %v.", call.Name, err), isError: true, denied: err.Error()}
	}
	defer func() {
		if p := recover(); p != nil {
			r.engine.cfg.Logger.Error("tool panicked", "tool", call.Name, "panic", p, "runId", r.in.RunID, "stack", string(debug.Stack()))
			res = result{output: "The tool failed with an internal error.", isError: true}
		}
	}()
	out, err := e.Call(ctx, tool.Call{ID: call.ID, Input: call.Input, RunID: r.in.RunID, SessionID: r.in.Session.ID()})
	res = result{output: out.Output, isError: out.IsError || err != nil}
	if err != nil {
		if errors.Is(context.Cause(ctx), errToolTimeout) {
			return r.timedOut(res)
		}
		res.output = strings.TrimLeft(out.Output+"\n"+err.Error(), "\n")
	}
	res.output, res.truncated = limitOutput(res.output, r.engine.cfg.MaxToolOutput)
	return res
}

func (r *Run) timedOut(res result) result {
	res.isError = true
	res.output = strings.TrimLeft(fmt.Sprintf("%s\nThe call was ended after %v.", res.output, r.engine.cfg.ToolTimeout), "\n")
	res.output, res.truncated = limitOutput(res.output, r.engine.cfg.MaxToolOutput)
	return res
}

// tell yields the events of one ended call.
func (r *Run) tell(call *model.Block, res result, yield func(wire.Event) bool) bool {
	if res.denied != "" {
		denial := wire.PermissionDenial{ToolName: call.Name, ToolUseID: call.ID, Reason: res.denied}
		r.outcome.Denials = append(r.outcome.Denials, denial)
		if !yield(wire.Event{More: true, Payload: &wire.System{
			Type: "system", Subtype: wire.SystemPermissionDenied,
			ToolName: denial.ToolName, ToolUseID: denial.ToolUseID, Reason: denial.Reason,
		}}) {
			return false
		}
	}
	return yield(wire.Event{Payload: &wire.ToolResult{Type: "tool_result", Result: wire.ToolResultDetail{
		ToolUseID: call.ID, ToolName: call.Name, Output: res.output, IsError: res.isError,
		DurationMs: res.took.Milliseconds(), Truncated: res.truncated,
	}}})
}
