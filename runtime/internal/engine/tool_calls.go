package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// handleCalls runs the calls of one response and stores their results. It reports whether the run
// ends, because a call waits.
func (r *runState) handleCalls(ctx context.Context, calls []model.Block) (bool, error) {
	r.judged, r.shown = map[string]*judgement{}, shown{}
	results, waiting, err := r.runTools(ctx, calls)
	if repeated := r.refused.endTurn(); err == nil {
		err = repeated
	}

	// The results are stored even if the run ends here, although ctx is cancelled then.
	if len(results.Content) > 0 {
		if appendErr := r.appendMessage(context.WithoutCancel(ctx), results); err == nil {
			err = appendErr
		}
	}

	if err != nil || len(waiting) == 0 {
		return false, err
	}

	return true, r.wait(ctx, waiting, calls[len(results.Content)+len(waiting):])
}

// runTools runs the calls of one response and emits an event when each call ends. Adjacent calls of
// read-only tools run in parallel, the others one after another. The returned message has a result
// for each call, in the order of the calls, even if there is an error. If calls wait, it returns
// them, and the message has no results of those and of the calls after them.
func (r *runState) runTools(ctx context.Context, calls []model.Block) (model.Message, []waitingCall, error) {
	message := model.Message{Role: model.RoleUser, Content: make([]model.Block, len(calls))}
	for i := range calls {
		message.Content[i] = model.Block{Type: model.BlockToolResult, ID: calls[i].ID, Text: interrupted, IsError: true}
	}

	var budget imageBudget
	for from := 0; from < len(calls); {
		if w := r.waits(ctx, &calls[from]); w != nil {
			message.Content = message.Content[:from]
			return message, []waitingCall{*w}, nil
		}

		to := from + 1
		for r.readOnly(&calls[from]) && to < len(calls) && r.readOnly(&calls[to]) && r.waits(ctx, &calls[to]) == nil {
			to++
		}

		asking := make([]*waitingCall, to-from)
		err := r.runParallel(ctx, calls[from:to], func(i int, res result) {
			b := &message.Content[from+i]
			b.Text, b.Images, b.IsError = res.output, budget.take(res.images), res.isError
			asking[i] = res.asking
		})
		if err != nil {
			return message, nil, err
		}

		var waiting []waitingCall
		ended := message.Content[:from]
		for i, w := range asking {
			if w == nil {
				ended = append(ended, message.Content[from+i])
			} else {
				waiting = append(waiting, *w)
			}
		}

		if len(waiting) > 0 {
			message.Content = ended
			return message, waiting, nil
		}

		from = to
	}

	return message, nil, nil
}

// ask returns the result of a call that asks something.
func (r *runState) ask(block *model.Block, res result) result {
	w, err := asks(block, res)
	switch {
	case !r.accepts(runvalue.InputQuestion):
		err = errors.New("there is nobody who can answer it")
	case err == nil && !r.shown.fits(w.Pending):
		err = errors.New("it came with too many others")
	}

	if err != nil {
		return r.limitResult(result{output: fmt.Sprintf("The call needs an answer to a question: %v.", err), isError: true, duration: res.duration})
	}

	res.asking = &w
	return res
}

func (r *runState) readOnly(call *model.Block) bool {
	e := r.tools.entries[call.Name]
	return e != nil && e.spec.ReadOnly
}

// runParallel runs the calls in parallel. It passes their results to store and emits their events
// as the calls end. If ctx ends, it still waits for the calls, and stores the results of those that
// succeeded.
func (r *runState) runParallel(ctx context.Context, calls []model.Block, store func(int, result)) error {
	updates := make(chan update, len(calls))
	slots := make(chan struct{}, maxParallel)
	for i := range calls {
		go func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			res := r.observeReserved(ctx, &calls[i], func(p wire.Payload) {
				select {
				case updates <- update{index: i, event: p}:
				case <-ctx.Done():
				}
			})
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
			if u.question != nil {
				u.result = r.ask(&calls[u.index], u.result)
			}

			if u.refused {
				u.output += r.refused.add(&calls[u.index])
			}

			store(u.index, u.result)
			if u.asking == nil {
				r.emitResult(&calls[u.index], u.result)
			}
		case !u.isError:
			store(u.index, u.result)
		}

		left--
	}

	r.out.Flush()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}

	return nil
}

// emitResult emits the events of a completed call.
func (r *runState) emitResult(call *model.Block, res result) {
	r.outcome.Denials = append(r.outcome.Denials, res.denials...)
	if res.denied != nil {
		denial := wire.PermissionDenial{ToolName: call.Name, ToolUseID: call.ID, Reason: res.denied.Error()}
		setting, rule := r.engine.cfg.Policy.Source(res.denied, r.tools.entries[call.Name].permissionTool(), call.Input)
		if errors.Is(res.denied, errTooLongToShow) || errors.Is(res.denied, errNotText) || errors.Is(res.denied, errChanged) {
			setting, rule = "", "" // no setting denied it
		}

		r.outcome.Denials = append(r.outcome.Denials, denial)
		r.out.Emit(&wire.System{
			Type: "system", Subtype: runvalue.SystemPermissionDenied,
			ToolName: denial.ToolName, ToolUseID: denial.ToolUseID, Reason: denial.Reason,
			Source: setting, Rule: rule,
		})
	}

	r.out.Emit(&wire.ToolResult{Type: "tool_result", Result: wire.ToolResultDetail{
		ToolUseID: call.ID, ToolName: call.Name, Output: res.output, IsError: res.isError,
		DurationMs: res.duration.Milliseconds(), Truncated: res.truncated,
	}})
}
