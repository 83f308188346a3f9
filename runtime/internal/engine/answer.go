package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed93082962/agenthost/internal/jsonlimit"
	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/internal/toolschema"
	"github.com/seed93082962/agenthost/runtime/internal/permission"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/session"
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
	wait   *wait
	calls  map[string]*answeredCall // by the id of the tool use
	output *OutputSchema            // of the request of the run that waited, or nil
}

// answeredCall is a call with its answer. A call without an answer is one that needed none.
type answeredCall struct {
	*waitingCall

	answer *wire.Answer

	// Only with an input of the answer: as the schema reads it, what it executes, which is "" if it is
	// denied, and the result if that cannot be told.
	input    json.RawMessage
	executed string
	failed   *result
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
	for _, m := range slices.Backward(messages) {
		if m.Role != model.RoleAssistant {
			continue
		}

		for i := range m.Content {
			if b := &m.Content[i]; b.Type == model.BlockToolUse {
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

	out := &Answers{wait: w, calls: map[string]*answeredCall{}}
	if w.OutputSchema != nil {
		if out.output, err = CompileOutputSchema(w.OutputSchema); err != nil {
			return nil, fmt.Errorf("read what the session waits for: outputSchema: %w", err)
		}
	}

	inTime, cancel := context.WithTimeoutCause(ctx, e.cfg.ToolTimeout, errToolTimeout) // of all answers
	defer cancel()
	given := make(map[string]*wire.Answer, len(answers))
	for i := range answers {
		given[answers[i].ID] = &answers[i]
	}

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
			mismatch.Message = contentProblem(inTime, call.Pending, answer.Content)
		}

		out.calls[call.ToolUseID] = &answeredCall{waitingCall: call, answer: answer}
	}

	switch {
	case len(given) > 0:
		return nil, ErrNotWaiting
	case mismatch.Message != "":
		return nil, mismatch
	}

	for i := range w.Calls {
		if call := out.calls[w.Calls[i].ToolUseID]; call != nil {
			if err := e.judgeAgain(inTime, call); err != nil {
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
func contentProblem(ctx context.Context, asked *wire.Pending, content json.RawMessage) string {
	if asked.Schema == nil {
		if content != nil {
			return "the question " + asked.ID + " asks for no content"
		}

		return ""
	}

	if content == nil {
		content = json.RawMessage("{}")
	}

	schema, err := new(toolschema.Budget).Compile(asked.Schema)
	if err == nil {
		err = schema.Validate(ctx, content)
	}

	if err != nil {
		return fmt.Sprintf("the content of the answer of %s does not match the schema: %v", asked.ID, err)
	}

	return ""
}

// refuses reports whether an answer executes nothing.
func refuses(a *wire.Answer) bool {
	return a.Decision == runvalue.DecisionReject || a.Action != "" && a.Action != runvalue.ActionAccept || a.IsError
}

// judgeAgain returns a ChangedError if a call that would be executed as it was shown is not
// permitted any more, or would execute something else. Calls of tools of servers that are not
// connected are judged when they run.
func (e *Engine) judgeAgain(ctx context.Context, call *answeredCall) error {
	switch {
	case refuses(call.answer): // it needs no permission
		return nil
	case call.Server != "" && call.Server != e.definition(call.block.Name):
		return &ChangedError{"the MCP server of the tool is defined in another way, or no longer"}
	case call.answer.Input != nil:
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

	form, reason := e.cfg.Policy.Check(ctx, of, call.block.Input)
	switch {
	case ctx.Err() != nil:
		return &ChangedError{"the call could not be judged in time"}
	case !call.mayRun(reason):
		return &ChangedError{reason.Error()}
	case !client && string(form) != string(call.form()):
		return &ChangedError{"rules or links have changed, and the call would execute something else"}
	}

	return nil
}

// definition identifies the definition of the MCP server of a tool. It is "" for other tools.
func (e *Engine) definition(name string) string {
	for _, s := range e.cfg.Servers {
		defined, ok := s.(interface{ Definition() string })
		if ok && strings.HasPrefix(name, serverPrefix+s.Name()+"__") {
			return defined.Definition()
		}
	}

	return ""
}

// knownTool returns a tool of the engine, or one of a server that was connected before, or nil.
func (e *Engine) knownTool(name string) *offeredTool {
	if last := e.merged.Load(); last != nil {
		return last.entries[name]
	}

	return e.tools.entries[name]
}
