package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/seed93082962/agenthost/internal/excerpt"
	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/tool"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// resume executes the calls that waited, with their answers. It reports whether the run waits
// again. The answers are recorded, and count, before anything is executed: after a crash the
// outcome of the calls is unknown, and no later run executes them.
func (r *runState) resume(ctx context.Context) (bool, error) {
	if ctx.Err() != nil { // the answers are not used
		return false, context.Cause(ctx)
	}

	answers := r.in.Answers
	r.answers = answers.calls
	blocks := make([]model.Block, len(answers.wait.Calls))
	var events []*wire.System
	for i := range answers.wait.Calls {
		call := &answers.wait.Calls[i]
		blocks[i] = *call.block
		if answered := r.answers[call.ToolUseID]; answered != nil {
			executed := call.Pending.Executed
			if answered.answer.Input != nil {
				r.change(ctx, answered)
				executed = answered.executed
			}

			events = append(events, answeredEvent(call.Pending, decisionOf(answered.answer), answered.answer.Reason, executed))
		}
	}

	if err := r.settle(ctx, answers.wait.Since, events); err != nil {
		return false, fmt.Errorf("store answers: %w", err)
	}

	r.out.Flush()
	defer func() { r.answers = nil }() // a later response may have calls with the same ids
	return r.handleCalls(ctx, blocks)
}

// change judges the input of an answer, which replaces that of the call.
func (r *runState) change(ctx context.Context, call *answeredCall) {
	e := r.tools.entries[call.block.Name]
	if e == nil {
		return
	}

	inTime, cancel := context.WithTimeoutCause(ctx, r.engine.cfg.ToolTimeout, errToolTimeout)
	defer cancel()
	call.input = call.answer.Input
	if e.schema != nil {
		call.input = e.schema.Coerce(inTime, call.input)
	}

	var reason error
	call.Form, reason = r.engine.cfg.Policy.Check(inTime, e.permissionTool(), call.input)
	if !call.mayRun(reason) {
		return
	}

	if e.schema != nil {
		if err := e.schema.Validate(inTime, call.Form); err != nil {
			failed := r.mismatch(e, err)
			call.failed = &failed
			return
		}
	}

	text, err := preview(inTime, e, call.Form)
	if err != nil {
		call.failed = &result{output: err.Error(), isError: true}
	}

	call.executed = text
}

// decisionOf returns the decision of an answer, as the event has it.
func decisionOf(a *wire.Answer) string {
	switch {
	case a.Decision != "":
		return a.Decision
	case a.Action != "":
		return a.Action
	case a.IsError:
		return runvalue.DecisionError
	}

	return runvalue.DecisionOutput
}

// answeredEvent returns the event that a call has an answer. What it executes is "" if nothing can
// run.
func answeredEvent(p *wire.Pending, decision, reason, executed string) *wire.System {
	event := &wire.System{
		Type: "system", Subtype: runvalue.SystemAnswered, ID: p.ID, Kind: p.Kind,
		ToolName: p.ToolName, ToolUseID: p.ToolUseID, Decision: decision, Reason: reason,
	}
	if p.Kind == runvalue.InputApproval && executed != "" {
		digest := sha256.Sum256([]byte(executed))
		event.Digest = hex.EncodeToString(digest[:])
	}

	return event
}

// settle stores that the session waits no longer, and the answers with it. Then it emits them.
func (r *runState) settle(ctx context.Context, since time.Time, events []*wire.System) error {
	records := make([]json.RawMessage, len(events))
	for i, event := range events {
		var err error
		if records[i], err = (wire.Event{Payload: event}).Append(nil); err != nil {
			return err
		}
	}

	if err := r.in.Session.SetWaiting(ctx, nil, records...); err != nil {
		return err
	}

	for _, event := range events {
		r.engine.metrics.answer(event.Kind, event.Decision, time.Since(since))
		r.out.Emit(event)
	}

	return nil
}

const wroteInstead = "the user wrote a message instead"

// rejectWaiting rejects what the session waits for: its user wrote a message instead of answers.
func (r *runState) rejectWaiting(ctx context.Context) error {
	w, err := waitOf(r.in.Session)
	if err != nil { // the calls have no result, which restore adds
		r.engine.cfg.Logger.Error("drop what the session waits for", "err", err, "run_id", r.in.RunID)
		return r.in.Session.SetWaiting(ctx, nil)
	}

	if w == nil {
		return nil
	}

	message := model.Message{Role: model.RoleUser}
	var events []*wire.System
	for i := range w.Calls {
		call := &w.Calls[i]
		text := "The call was rejected and did not run: " + wroteInstead + "."
		if call.Question != nil {
			text = "The call did not end, because it asked something: " + wroteInstead + "."
		}

		message.Content = append(message.Content, model.Block{Type: model.BlockToolResult, ID: call.ToolUseID, Text: text, IsError: true})
		if call.Pending == nil {
			continue
		}

		decision := runvalue.DecisionReject
		if call.Pending.Kind == runvalue.InputQuestion {
			decision = runvalue.ActionCancel
		}

		events = append(events, answeredEvent(call.Pending, decision, wroteInstead, call.Pending.Executed))
	}

	if err := r.settle(ctx, w.Since, events); err != nil {
		return fmt.Errorf("store rejection: %w", err)
	}

	if err := r.in.Session.Append(ctx, message); err != nil {
		return fmt.Errorf("append to session: %w", err)
	}

	return nil
}

// answeredResult returns the result of a call whose answer is its result.
func (r *runState) answeredResult(call *answeredCall) (result, bool) {
	switch {
	case call.answer.Output != nil:
		return r.limitResult(result{output: *call.answer.Output, isError: call.answer.IsError}), true
	case call.answer.Decision == runvalue.DecisionReject:
		text := "The user rejected this call, and it did not run."
		if call.answer.Reason != "" {
			text = "The user rejected this call, and it did not run. The reason: " + call.answer.Reason
		}

		return r.limitResult(result{output: text, isError: true, rejected: true}), true
	case call.failed != nil:
		return r.limitResult(*call.failed), true
	}

	return result{}, false
}

// applyAnswer sets what an answer gives to a call, before it is checked.
func applyAnswer(answered *answeredCall, call *tool.Call) {
	switch {
	case answered.Question != nil:
		q := *answered.Question
		q.Action, q.Content = answered.answer.Action, answered.answer.Content
		call.Question = &q
	case answered.answer.Input == nil:
		call.Approved = answered.Pending.Executed
	default:
		call.Input, call.Approved = answered.input, answered.executed
	}
}

// errChanged is the reason why an approved call is denied.
var errChanged = errors.New("rules or links have changed since it was approved, and it would execute something else")

// permits returns why an answered call must not run with form, whose check had the error reason.
func (a *answeredCall) permits(form json.RawMessage, reason error) error {
	switch {
	case !a.mayRun(reason):
		return reason
	case string(form) != string(a.form()), a.answer.Input != nil && a.executed == "":
		return errChanged
	}

	return nil
}

// maxChanged bounds the input in a result whose model did not write it, in bytes.
const maxChanged = 4 << 10

// explain returns the result of a call with what the model does not know about it.
func (a *answeredCall) explain(res result) result {
	if a.answer.Input != nil {
		res.output = "The user approved this call with another input: " + excerpt.Shorten(string(a.answer.Input), maxChanged) + "\n" + res.output
	}

	return res
}
