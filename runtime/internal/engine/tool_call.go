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

	"github.com/seed93082962/agenthost/internal/excerpt"
	"github.com/seed93082962/agenthost/internal/jsonlimit"
	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/internal/permission"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/tool"
	"github.com/seed93082962/agenthost/runtime/wire"
)

const (
	// stopGrace is the time that a tool has to stop after its timeout. After that the run continues
	// without its result, but does not end before the tool returns.
	stopGrace = 5 * time.Second

	cancelGrace = time.Second // for a tool to return its result after the run was cancelled
	maxParallel = 16          // calls of one response that run in parallel
)

var errToolTimeout = fmt.Errorf("tool call took too long: %w", context.DeadlineExceeded)

// result is the result of one call.
type result struct {
	output    string
	isError   bool
	truncated bool
	images    []model.Image
	duration  time.Duration
	refused   bool  // the call was not run: it is invalid, or was denied
	rejected  bool  // by a person
	approved  bool  // an approval permitted the call, not a rule
	denied    error // the reason, if the call was denied

	denials []wire.PermissionDenial // of the subagent that was called

	// The call has no result: it needs an answer.
	question *tool.Question
	form     json.RawMessage // the input with which it was called
	asking   *waitingCall
}

// update is an event of a subagent, or the result of a call.
type update struct {
	index int
	event wire.Payload // nil: result is valid
	result
}

// unlimited is the timeout of a call that has no limit other than the end of the run.
const unlimited = time.Duration(math.MaxInt64)

// runToolCall checks one tool call and runs it with its timeout. If the tool is still running
// stopGrace after the timeout, the run continues without its result, but does not end before the
// tool returns. The events of a subagent are passed to emit.
func (r *runState) runToolCall(run context.Context, block *model.Block, emit func(wire.Payload)) (res result) {
	stopped := result{output: interrupted, isError: true}
	if run.Err() != nil {
		return stopped
	}

	defer func() {
		if p := recover(); p != nil {
			r.logPanic("check", block.Name, p)
			res = result{output: "The call could not be checked because of an internal error.", isError: true}
		}
	}()
	call := tool.Call{
		ID: block.ID, Input: block.Input, RunID: r.in.RunID, SessionID: r.in.Session.ID(), Log: r.in.log,
		CanAsk: r.accepts(runvalue.InputQuestion),
	}
	answered := r.answers[block.ID]
	if answered != nil {
		if res, ok := r.answeredResult(answered); ok {
			return res
		}

		applyAnswer(answered, &call)
	}

	e, checked := r.checkCall(run, block, &call)
	if e == nil {
		return checked
	}

	limit := r.callTimeout(e, call.Input)
	ctx, cancel := context.WithCancelCause(run)
	defer cancel(nil)
	timeout := time.AfterFunc(limit, func() { cancel(errToolTimeout) })
	defer timeout.Stop()
	call.Progress = func() { timeout.Reset(limit) }
	done := make(chan result, 1)
	r.calls.add(block)
	go func() {
		defer r.calls.done(block)
		res := r.invoke(ctx, e, call, limit, emit)
		res.approved = checked.approved
		done <- res
	}()
	select {
	case res := <-done:
		return res
	case <-ctx.Done():
	}

	timer := time.NewTimer(stopGrace)
	defer timer.Stop()
	select {
	case res := <-done:
		return res
	case <-timer.C:
		return r.timeoutResult(result{}, limit)
	case <-run.Done():
	}

	timer.Reset(cancelGrace)
	select {
	case res := <-done:
		return res
	case <-timer.C:
		return stopped
	}
}

// callTimeout returns the time that a call may take.
func (r *runState) callTimeout(e *offeredTool, input json.RawMessage) time.Duration {
	switch t := e.Tool.(type) {
	case *task:
		return unlimited
	case tool.Timed:
		return t.Timeout(input, r.engine.cfg.ToolTimeout)
	}

	return r.engine.cfg.ToolTimeout
}

// checkCall returns the tool if the call may run, and otherwise the result of the rejected call. It
// sets the input of call to the form that the policy checked. The input in block is unchanged.
func (r *runState) checkCall(ctx context.Context, block *model.Block, call *tool.Call) (*offeredTool, result) {
	if j := r.judged[block.ID]; j != nil && j.rejected != nil {
		return nil, *j.rejected
	}

	e, ok := r.tools.entries[block.Name]
	if !ok {
		known := "There are no tools."
		if len(r.tools.names) > 0 {
			known = "The tools are: " + strings.Join(r.tools.names, ", ") + "."
		}

		return nil, refusal(fmt.Sprintf("There is no tool %q. %s", block.Name, known))
	}

	if e.kind == kindOutput {
		return nil, refusal(outputNotAlone)
	}

	if block.BadInput != "" {
		err := jsonlimit.Unmarshal([]byte(block.BadInput), &map[string]json.RawMessage{})
		if err == nil {
			err = jsonlimit.ErrExceeded
		}

		return nil, refusal(fmt.Sprintf("The input is not a JSON object: %v.", err))
	}

	limit := r.engine.cfg.ToolTimeout
	inTime, cancel := context.WithTimeoutCause(ctx, limit, errToolTimeout)
	defer cancel()
	var err error
	call.Input, err = r.engine.cfg.Policy.Check(inTime, e.permissionTool(), call.Input)
	switch {
	case ctx.Err() != nil:
		return nil, result{output: interrupted, isError: true}
	case errors.Is(err, errToolTimeout):
		return nil, r.timeoutResult(result{}, limit)
	case errors.Is(err, permission.ErrLongPath):
		return nil, refusal(err.Error())
	}

	approved := err != nil
	if answered := r.answers[block.ID]; answered != nil {
		err = answered.permits(call.Input, err)
	} else if err != nil && r.approved(ctx, block.Name, *call, err) {
		err = nil
	}

	if err != nil {
		denial := refusal(fmt.Sprintf("Permission to use %s was denied: %v.", block.Name, err))
		denial.denied = err
		return nil, denial
	}

	return e, result{approved: approved}
}

// approved reports whether Approve allows a call that the policy does not allow.
func (r *runState) approved(ctx context.Context, name string, call tool.Call, reason error) (ok bool) {
	approve := r.engine.cfg.Approve
	if approve == nil || !mayApprove(reason) {
		return false
	}

	if j := r.judged[call.ID]; j != nil && string(j.form) == string(call.Input) {
		return true // it was asked before
	}

	defer func() {
		if p := recover(); p != nil {
			r.logPanic("Approve", name, p)
			ok = false
		}
	}()
	return approve(ctx, ApprovalRequest{
		AgentID: r.engine.cfg.AgentID, RunID: call.RunID, SessionID: call.SessionID,
		ToolUseID: call.ID, ToolName: name, Input: call.Input, Reason: reason,
	})
}

func (r *runState) logPanic(where, name string, value any) {
	r.engine.cfg.Logger.Error("tool call panicked", "in", where, "tool", name, "panic", value, "run_id", r.in.RunID, "stack", string(debug.Stack()))
}

// invoke validates the input and calls the tool. A panic of the tool is an error result.
func (r *runState) invoke(ctx context.Context, e *offeredTool, call tool.Call, limit time.Duration, emit func(wire.Payload)) (res result) {
	defer func() {
		if p := recover(); p != nil {
			r.logPanic("call", e.spec.Name, p)
			res = result{output: "The tool failed with an internal error.", isError: true}
		}
	}()
	var err error
	if e.schema != nil {
		err = e.schema.Validate(ctx, call.Input)
	}

	switch {
	case errors.Is(context.Cause(ctx), errToolTimeout):
		return r.timeoutResult(result{}, limit)
	case ctx.Err() != nil:
		return result{output: interrupted, isError: true}
	case err != nil:
		return r.mismatch(e, err)
	}

	if t, ok := e.Tool.(*task); ok {
		res = r.runTask(ctx, t, call, emit)
	} else {
		out, err := e.Call(ctx, call)
		res = result{output: out.Output, isError: out.IsError || err != nil, truncated: out.Truncated, images: limitImages(out.Images)}
		if out.Question != nil && err == nil {
			return result{isError: true, question: out.Question, form: call.Input}
		}

		if err != nil && !errors.Is(context.Cause(ctx), errToolTimeout) {
			res.output = strings.TrimLeft(out.Output+"\n"+err.Error(), "\n")
		}
	}

	if res.isError && errors.Is(context.Cause(ctx), errToolTimeout) {
		return r.timeoutResult(res, limit)
	}

	return r.limitResult(res)
}

// mismatch returns the result of a call whose input does not match the schema of its tool.
func (r *runState) mismatch(e *offeredTool, err error) result {
	return r.limitResult(refusal(fmt.Sprintf("The input does not match the schema of %s: %v.", e.spec.Name, err)))
}

func (r *runState) timeoutResult(res result, limit time.Duration) result {
	res.isError = true
	if res.output != "" && !strings.HasSuffix(res.output, "\n") {
		res.output += "\n"
	}

	res.output += fmt.Sprintf("The call exceeded its time limit of %v and was stopped.", limit)
	return r.limitResult(res)
}

// limitResult truncates an output to MaxToolOutput.
func (r *runState) limitResult(res result) result {
	var cut bool
	res.output, cut = excerpt.Ends(res.output, r.engine.cfg.MaxToolOutput)
	res.truncated = res.truncated || cut
	return res
}
