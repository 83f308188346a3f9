package engine

import (
	"context"
	"errors"
	"time"

	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// stopGrace is the time that a tool has to stop after its timeout. After that the run continues
// without its result, but does not end before the tool returns.
const stopGrace = 5 * time.Second

// cancelGrace is the time that a tool has to return its result after the run was cancelled.
const cancelGrace = time.Second

// maxParallel limits the number of calls of one response that run in parallel.
const maxParallel = 16

var errToolTimeout = errors.New("tool call took too long")

// result is the result of one call.
type result struct {
	output    string
	isError   bool
	truncated bool
	images    []model.Image
	duration  time.Duration
	denied    string // the reason, if the call was denied

	// Of the subagent that was called.
	usage   wire.Usage
	denials []wire.PermissionDenial
}

// update is an event of a subagent, or the result of a call.
type update struct {
	index int
	event wire.Payload // nil: result is valid
	result
}

// runTools runs the calls of one response and emits an event when each call ends. Adjacent calls of
// read-only tools run in parallel, the others one after another. The returned message has a result
// for each call, in the order of the calls, even if there is an error.
func (r *run) runTools(ctx context.Context, calls []model.Block) (model.Message, error) {
	message := model.Message{Role: model.RoleUser, Content: make([]model.Block, len(calls))}
	for i := range calls {
		message.Content[i] = model.Block{Type: model.BlockToolResult, ID: calls[i].ID, Text: interrupted, IsError: true}
	}
	var budget imageBudget
	for from := 0; from < len(calls); {
		to := from + 1
		for r.readOnly(&calls[from]) && to < len(calls) && r.readOnly(&calls[to]) {
			to++
		}
		err := r.runParallel(ctx, calls[from:to], func(i int, res result) {
			b := &message.Content[from+i]
			b.Text, b.Images, b.IsError = res.output, budget.take(res.images), res.isError
		})
		if err != nil {
			return message, err
		}
		from = to
	}
	return message, nil
}

func (r *run) readOnly(call *model.Block) bool {
	e := r.tools.entries[call.Name]
	return e != nil && e.spec.ReadOnly
}

// runParallel runs the calls in parallel. It passes their results to store and emits their events
// as the calls end. If ctx ends, it still waits for the calls, and stores the results of those that
// succeeded.
func (r *run) runParallel(ctx context.Context, calls []model.Block, store func(int, result)) error {
	updates := make(chan update, len(calls))
	slots := make(chan struct{}, maxParallel)
	for i := range calls {
		go func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			begin := time.Now()
			res := r.runToolCall(ctx, &calls[i], func(p wire.Payload) {
				select {
				case updates <- update{index: i, event: p}:
				case <-ctx.Done():
				}
			})
			res.duration = time.Since(begin)
			updates <- update{index: i, result: res}
		}()
	}
	for left := len(calls); left > 0; {
		r.out.Flush()
		u := <-updates
		stopped := ctx.Err() != nil
		switch {
		case u.event != nil:
			if !stopped {
				r.out.Emit(u.event)
			}
			continue
		case !stopped:
			store(u.index, u.result)
			r.emitResult(&calls[u.index], u.result)
		case !u.isError:
			store(u.index, u.result)
		}
		r.outcome.Usage = r.outcome.Usage.Add(u.usage)
		left--
	}
	r.out.Flush()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// emitResult emits the events of a completed call.
func (r *run) emitResult(call *model.Block, res result) {
	r.outcome.Denials = append(r.outcome.Denials, res.denials...)
	if res.denied != "" {
		denial := wire.PermissionDenial{ToolName: call.Name, ToolUseID: call.ID, Reason: res.denied}
		r.outcome.Denials = append(r.outcome.Denials, denial)
		r.out.Emit(&wire.System{
			Type: "system", Subtype: wire.SystemPermissionDenied,
			ToolName: denial.ToolName, ToolUseID: denial.ToolUseID, Reason: denial.Reason,
		})
	}
	r.out.Emit(&wire.ToolResult{Type: "tool_result", Result: wire.ToolResultDetail{
		ToolUseID: call.ID, ToolName: call.Name, Output: res.output, IsError: res.isError,
		DurationMs: res.duration.Milliseconds(), Truncated: res.truncated,
	}})
}
