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

// cancelGrace is how long a tool gets to give its result when the run has been cancelled.
const cancelGrace = time.Second

// maxParallel bounds how many calls of one answer run side by side.
const maxParallel = 16

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

// batch runs the calls side by side, keeps their results as they come and yields their events.
// When ctx ends it waits for them, and keeps the results that are none of its end.
func (r *Run) batch(ctx context.Context, calls []model.Block, keep func(result), yield func(wire.Event) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan result, len(calls))
	places := make(chan struct{}, maxParallel)
	for i := range calls {
		go func() {
			places <- struct{}{}
			defer func() { <-places }()
			begin := time.Now()
			res := r.attempt(ctx, &calls[i])
			res.index, res.took = i, time.Since(begin)
			results <- res
		}()
	}
	stopped := false
	for range calls {
		res := <-results
		switch over := stopped || ctx.Err() != nil; {
		case !over:
			keep(res)
			if stopped = !r.tell(&calls[res.index], res, yield); stopped {
				cancel()
			}
		case !res.isError:
			keep(res)
		}
	}
	if stopped {
		return errStopped
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// attempt gives a call its time. A tool that does not stop when that is over is left behind: the
// run goes on without it, but does not end before it.
func (r *Run) attempt(run context.Context, call *model.Block) result {
	cut := result{output: interrupted, isError: true}
	if run.Err() != nil {
		return cut
	}
	ctx, cancel := context.WithTimeoutCause(run, r.engine.cfg.ToolTimeout, errToolTimeout)
	defer cancel()
	done := make(chan result, 1)
	r.calls.add(call)
	go func() {
		defer r.calls.done(call)
		done <- r.call(ctx, call)
	}()
	late := time.NewTimer(r.engine.cfg.ToolTimeout + stopGrace)
	defer late.Stop()
	select {
	case res := <-done:
		return res
	case <-late.C:
		return r.timedOut(result{})
	case <-run.Done():
	}
	late.Reset(cancelGrace)
	select {
	case res := <-done:
		return res
	case <-late.C:
		return cut
	}
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
