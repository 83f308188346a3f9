package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/internal/excerpt"
	"github.com/seed93082962/agenthost/internal/jsonlimit"
	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/internal/toolschema"
	"github.com/seed93082962/agenthost/runtime/internal/permission"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/session"
	"github.com/seed93082962/agenthost/runtime/tool"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// ErrNotWaiting is returned by CheckAnswers if the session does not wait for an answer.
var ErrNotWaiting = errors.New("the session does not wait for this answer")

// ChangedError is returned by CheckAnswers if a call can no longer be executed as it was shown.
type ChangedError struct{ Reason string }

func (e *ChangedError) Error() string { return e.Reason }

// AnswersError is returned by CheckAnswers if the answers do not match what waits.
type AnswersError struct {
	Message string
	Pending []wire.Pending // all that waits
}

func (e *AnswersError) Error() string { return e.Message }

// Answers are checked answers of all that a session waits for.
type Answers struct {
	wait  *wait
	calls map[string]*answeredCall // by the id of the tool use
}

// answeredCall is a call with its answer. A call without an answer is one that needed none.
type answeredCall struct {
	*waitingCall

	answer *wire.Answer
}

// waitOf returns what a session waits for, or nil.
func waitOf(s session.Session) (*wait, error) {
	stored := s.Waiting()
	if stored == nil {
		return nil, nil
	}

	w := new(wait)
	if err := jsonlimit.Unmarshal(stored, w); err != nil {
		return nil, fmt.Errorf("read what the session waits for: %w", err)
	}

	calls := lastCalls(s.Messages())
	for i := range w.Calls {
		call := &w.Calls[i]
		if call.block = calls[call.ToolUseID]; call.block == nil {
			return nil, fmt.Errorf("read what the session waits for: it has no call %q", call.ToolUseID)
		}

		if call.Pending != nil {
			call.Pending.Input = call.block.Input
		}
	}

	return w, nil
}

// lastCalls returns the calls of the last response.
func lastCalls(messages []model.Message) map[string]*model.Block {
	calls := map[string]*model.Block{}
	for i := len(messages) - 1; i >= 0 && len(calls) == 0; i-- {
		if messages[i].Role != model.RoleAssistant {
			continue
		}

		for j := range messages[i].Content {
			if b := &messages[i].Content[j]; b.Type == model.BlockToolUse {
				calls[b.ID] = b
			}
		}

		break
	}

	return calls
}

// CheckAnswers compares answers with what a session waits for, and judges the calls again under the
// present rules. The error is [ErrNotWaiting], a [*ChangedError], an [*AnswersError] or that of the
// session.
func (e *Engine) CheckAnswers(ctx context.Context, s session.Session, answers []wire.Answer) (*Answers, error) {
	w, err := waitOf(s)
	switch {
	case err != nil:
		return nil, err
	case w == nil:
		return nil, ErrNotWaiting
	}

	given := make(map[string]*wire.Answer, len(answers))
	for i := range answers {
		given[answers[i].ID] = &answers[i]
	}

	out := &Answers{wait: w, calls: map[string]*answeredCall{}}
	mismatch := &AnswersError{}
	for i := range w.Calls {
		call := &w.Calls[i]
		if call.Pending == nil {
			continue
		}

		answer := given[call.Pending.ID]
		delete(given, call.Pending.ID)
		mismatch.Pending = append(mismatch.Pending, *call.Pending)
		switch {
		case mismatch.Message != "":
		case answer == nil:
			mismatch.Message = "answers has none for " + call.Pending.ID
		case !fits(answer, call.Pending.Kind):
			mismatch.Message = "the answer of " + call.Pending.ID + " is not one of the kind " + call.Pending.Kind
		case answer.Action == runvalue.ActionAccept:
			mismatch.Message = e.contentProblem(ctx, call.Pending, answer.Content)
		}

		out.calls[call.ToolUseID] = &answeredCall{call, answer}
	}

	switch {
	case len(given) > 0:
		return nil, ErrNotWaiting
	case mismatch.Message != "":
		return nil, mismatch
	}

	for i := range w.Calls {
		if call := out.calls[w.Calls[i].ToolUseID]; call != nil {
			if err := e.judgeAgain(ctx, call); err != nil {
				return nil, err
			}
		}
	}

	return out, nil
}

// fits reports whether an answer has the fields of a kind.
func fits(a *wire.Answer, kind string) bool {
	switch kind {
	case runvalue.InputApproval:
		return a.Decision != ""
	case runvalue.InputClientTool:
		return a.Output != nil
	}

	return a.Action != ""
}

// contentProblem returns why an accepted question has no such content, or "".
func (e *Engine) contentProblem(ctx context.Context, asked *wire.Pending, content json.RawMessage) string {
	if asked.Schema == nil {
		if content != nil {
			return "the question " + asked.ID + " asks for no content"
		}

		return ""
	}

	if content == nil {
		content = json.RawMessage("{}")
	}

	inTime, cancel := context.WithTimeoutCause(ctx, e.cfg.ToolTimeout, errToolTimeout)
	defer cancel()
	schema, err := new(toolschema.Budget).Compile(asked.Schema)
	if err == nil {
		err = schema.Validate(inTime, content)
	}

	if err != nil {
		return fmt.Sprintf("the content of the answer of %s does not match the schema: %v", asked.ID, err)
	}

	return ""
}

// judgeAgain returns a ChangedError if a call that would be executed as it was shown is not permitted
// any more, or would execute something else. Calls of tools of servers that are not connected are
// judged when they run.
func (e *Engine) judgeAgain(ctx context.Context, call *answeredCall) error {
	if call.answer.Decision == runvalue.DecisionReject || call.answer.Input != nil {
		return nil
	}

	entry := e.knownTool(call.block.Name)
	of := permission.Tool{Name: call.block.Name}
	client := call.Pending.Kind == runvalue.InputClientTool
	switch {
	case entry != nil:
		of = entry.permissionTool()
	case !client && !strings.HasPrefix(call.block.Name, serverPrefix):
		return &ChangedError{fmt.Sprintf("there is no longer a tool %s", call.block.Name)}
	}

	inTime, cancel := context.WithTimeoutCause(ctx, e.cfg.ToolTimeout, errToolTimeout)
	defer cancel()
	form, reason := e.cfg.Policy.Check(inTime, of, call.block.Input)
	switch {
	case inTime.Err() != nil:
		return &ChangedError{"the call could not be judged in time"}
	case reason != nil && (!mayApprove(reason) || errors.Is(reason, permission.ErrNotListed)):
		return &ChangedError{reason.Error()}
	case !client && string(form) != string(call.form()):
		return &ChangedError{"rules or links have changed, and the call would execute something else"}
	}

	return nil
}

// knownTool returns a tool of the engine, or one of a server that was connected before, or nil.
func (e *Engine) knownTool(name string) *offeredTool {
	if last := e.merged.Load(); last != nil {
		return last.entries[name]
	}

	return e.tools.entries[name]
}

// resume executes the calls that waited, with their answers. It reports whether the run waits again.
// The answers are recorded, and count, before anything is executed: after a crash the outcome of the
// calls is unknown, and no later run executes them.
func (r *runState) resume(ctx context.Context) (bool, error) {
	if ctx.Err() != nil { // the answers are not used
		return false, context.Cause(ctx)
	}

	answers := r.in.Answers
	r.answers = answers.calls
	blocks := make([]model.Block, len(answers.wait.Calls))
	for i := range answers.wait.Calls {
		call := &answers.wait.Calls[i]
		blocks[i] = *call.block
		if answered := r.answers[call.ToolUseID]; answered != nil {
			r.emitAnswered(answered.Pending, decisionOf(answered.answer), answered.answer.Reason, answers.wait.Since)
		}
	}

	if err := r.in.Session.SetWaiting(ctx, nil); err != nil {
		return false, fmt.Errorf("store answers: %w", err)
	}

	r.out.Flush()
	defer func() { r.answers = nil }() // a later response may have calls with the same ids
	return r.handleCalls(ctx, blocks)
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

// emitAnswered emits that a call has an answer.
func (r *runState) emitAnswered(p *wire.Pending, decision, reason string, since time.Time) {
	event := &wire.System{
		Type: "system", Subtype: runvalue.SystemAnswered, ID: p.ID, Kind: p.Kind,
		ToolName: p.ToolName, ToolUseID: p.ToolUseID, Decision: decision, Reason: reason,
	}
	if p.Kind == runvalue.InputApproval {
		digest := sha256.Sum256([]byte(p.Executed))
		event.Digest = hex.EncodeToString(digest[:])
	}

	r.engine.metrics.answer(p.Kind, decision, time.Since(since))
	r.out.Emit(event)
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

		r.emitAnswered(call.Pending, decision, wroteInstead, w.Since)
	}

	if err := r.in.Session.SetWaiting(ctx, nil); err != nil {
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
	}

	return result{}, false
}

// applyAnswer sets what an answer gives to a call, before it is checked.
func (r *runState) applyAnswer(ctx context.Context, answered *answeredCall, call *tool.Call) {
	switch {
	case answered.Question != nil:
		q := *answered.Question
		q.Action, q.Content = answered.answer.Action, answered.answer.Content
		call.Question = &q
	case answered.answer.Input == nil:
		call.Approved = answered.Pending.Executed
	default:
		call.Input = answered.answer.Input
		if e := r.tools.entries[answered.block.Name]; e != nil && e.schema != nil {
			call.Input = e.schema.Coerce(ctx, call.Input)
		}
	}
}

// errChanged is the reason why an approved call is denied.
var errChanged = errors.New("rules or links have changed since it was approved, and it would execute something else")

// permits returns why an answered call must not run with form, whose check had the error reason.
func (a *answeredCall) permits(form json.RawMessage, reason error) error {
	switch {
	case reason != nil && (!mayApprove(reason) || errors.Is(reason, permission.ErrNotListed)):
		return reason
	case a.answer.Input == nil && string(form) != string(a.form()):
		return errChanged
	}

	return nil
}

// maxChanged bounds what the model is told about an input that it did not write, in bytes.
const maxChanged = 4 << 10

// explain returns the result of a call with what the model does not know about it.
func (a *answeredCall) explain(res result) result {
	if a.answer.Input != nil {
		res.output = "The user approved this call with another input: " + excerpt.Shorten(string(a.answer.Input), maxChanged) + "\n" + res.output
	}

	return res
}
