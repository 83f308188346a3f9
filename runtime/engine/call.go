package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/permission"
	"github.com/seed93082962/agenthost/runtime/tool"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// unlimited is the time of a call that only the run's own end bounds.
const unlimited = time.Duration(math.MaxInt64)

// attempt gives a call its time. A tool that does not stop when that is over is left behind: the
// run goes on without it, but does not end before it. What a subagent says goes to tell.
func (r *Run) attempt(run context.Context, block *model.Block, tell func(wire.Event)) result {
	cut := result{output: interrupted, isError: true}
	if run.Err() != nil {
		return cut
	}
	call := tool.Call{ID: block.ID, Input: block.Input, RunID: r.in.RunID, SessionID: r.in.Session.ID()}
	e, refused := r.admit(run, block, call)
	if e == nil {
		return refused
	}
	limit := r.limit(e, call.Input)
	ctx, cancel := context.WithTimeoutCause(run, limit, errToolTimeout)
	defer cancel()
	done := make(chan result, 1)
	r.calls.add(block)
	go func() {
		defer r.calls.done(block)
		done <- r.call(ctx, e, call, limit, tell)
	}()
	late := time.NewTimer(max(limit, limit+stopGrace)) // which may overflow
	defer late.Stop()
	select {
	case res := <-done:
		return res
	case <-late.C:
		return r.timedOut(result{}, limit)
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

// limit is how long a call may take.
func (r *Run) limit(e *entry, input json.RawMessage) time.Duration {
	switch t := e.Tool.(type) {
	case *task:
		return unlimited
	case tool.Timed:
		return t.Timeout(input, r.engine.cfg.ToolTimeout)
	}
	return r.engine.cfg.ToolTimeout
}

// admit finds the tool of a call that may run, or says what the model is told instead.
func (r *Run) admit(ctx context.Context, block *model.Block, call tool.Call) (*entry, result) {
	e, ok := r.tools.entries[block.Name]
	if !ok {
		known := "there are none"
		if len(r.tools.names) > 0 {
			known = "there are: " + strings.Join(r.tools.names, ", ")
		}
		return nil, result{output: fmt.Sprintf("There is no tool %q; %s.", block.Name, known), isError: true}
	}
	if block.BadInput != "" {
		err := json.Unmarshal([]byte(block.BadInput), &map[string]json.RawMessage{})
		return nil, result{output: fmt.Sprintf("The input is not a JSON object: %v.", err), isError: true}
	}
	if err := r.engine.cfg.Policy.Check(block.Name, e.spec.ReadOnly, call.Input); err != nil && !r.approved(ctx, block.Name, call, err) {
		return nil, result{output: fmt.Sprintf("Permission to use %s was refused: %v.", block.Name, err), isError: true, denied: err.Error()}
	}
	if fault := e.misfit(call.Input); fault != "" {
		return nil, result{output: fmt.Sprintf("The input does not fit the schema of %s: %s.", block.Name, fault), isError: true}
	}
	return e, result{}
}

// approved asks the embedder about a call that the policy does not allow. What is denied stays so.
func (r *Run) approved(ctx context.Context, name string, call tool.Call, reason error) (yes bool) {
	ask := r.engine.cfg.Approve
	if ask == nil || errors.Is(reason, permission.ErrDenied) || errors.Is(reason, permission.ErrPlan) {
		return false
	}
	defer func() {
		if p := recover(); p != nil {
			r.panicked("Approve", name, p)
			yes = false
		}
	}()
	return ask(ctx, Approval{Call: call, Tool: name, Reason: reason})
}

func (r *Run) panicked(what, name string, value any) {
	r.engine.cfg.Logger.Error("tool call panicked", "in", what, "tool", name, "panic", value, "runId", r.in.RunID, "stack", string(debug.Stack()))
}

// call runs one call, whatever the tool does.
func (r *Run) call(ctx context.Context, e *entry, call tool.Call, limit time.Duration, tell func(wire.Event)) (res result) {
	defer func() {
		if p := recover(); p != nil {
			r.panicked("call", e.spec.Name, p)
			res = result{output: "The tool failed with an internal error.", isError: true}
		}
	}()
	if t, ok := e.Tool.(*task); ok {
		res = r.delegate(ctx, t, call, tell)
	} else {
		out, err := e.Call(ctx, call)
		res = result{output: out.Output, isError: out.IsError || err != nil, truncated: out.Truncated}
		if err != nil && !errors.Is(context.Cause(ctx), errToolTimeout) {
			res.output = strings.TrimLeft(out.Output+"\n"+err.Error(), "\n")
		}
	}
	if res.isError && errors.Is(context.Cause(ctx), errToolTimeout) {
		return r.timedOut(res, limit)
	}
	return r.bounded(res)
}

func (r *Run) timedOut(res result, limit time.Duration) result {
	res.isError = true
	if res.output != "" && !strings.HasSuffix(res.output, "\n") {
		res.output += "\n"
	}
	res.output += fmt.Sprintf("The call ran into its time limit of %v and was ended.", limit)
	return r.bounded(res)
}

// bounded cuts an output to what the model gets to see of it.
func (r *Run) bounded(res result) result {
	var cut bool
	res.output, cut = limitOutput(res.output, r.engine.cfg.MaxToolOutput)
	res.truncated = res.truncated || cut
	return res
}
