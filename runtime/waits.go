package runtime

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/internal/engine"
	"github.com/seed93082962/agenthost/runtime/session"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// checkInputs validates what a request says about runs that wait, as far as it does not depend on
// the agent and the session.
func (rt *Runtime) checkInputs(req *wire.RunRequest) error {
	for i, kind := range req.Inputs {
		switch kind {
		case runvalue.InputApproval, runvalue.InputClientTool, runvalue.InputQuestion:
		default:
			return invalid(fmt.Sprintf("inputs[%d] must be approval, client_tool or question", i))
		}
	}

	switch {
	case len(req.Inputs) > maxInputs:
		return invalid(fmt.Sprintf("inputs must have at most %d entries", maxInputs))
	case len(req.Inputs) > 0 && !rt.stores(req):
		return invalid("a run with inputs is stored: store must not be false")
	case answers(req) && req.SessionID == nil:
		return invalid("answers need a sessionId")
	case len(req.Answers) > runvalue.MaxPending:
		return invalid(fmt.Sprintf("answers must have at most %d entries", runvalue.MaxPending))
	case len(req.ClientTools) > 0 && !slices.Contains(req.Inputs, runvalue.InputClientTool):
		return invalid("clientTools need client_tool in inputs")
	}

	seen := map[string]bool{}
	for i := range req.Answers {
		a := &req.Answers[i]
		if problem := answerProblem(a); problem != "" {
			return invalid(fmt.Sprintf("answers[%d].%s", i, problem))
		}

		if seen[a.ID] {
			return invalid(fmt.Sprintf("answers[%d].id occurs twice", i))
		}

		seen[a.ID] = true
	}

	return checkClientTools(req.ClientTools)
}

// answers reports whether a request answers what waits. One without a message and with no answers
// asks what waits: all answers are missing.
func answers(req *wire.RunRequest) bool {
	return len(req.Answers) > 0 || !hasMessage(req)
}

// checkAnswers returns the answers of a request for its run, or nil if it has none.
func (rt *Runtime) checkAnswers(ctx context.Context, h *hosted, s session.Session, req *wire.RunRequest) (*engine.Answers, error) {
	if !answers(req) {
		return nil, nil
	}

	checked, err := h.engine.CheckAnswers(ctx, s, req.Answers)
	if changed, ok := errors.AsType[*engine.ChangedError](err); ok {
		return nil, errCallChanged(s.ID(), changed.Reason)
	}

	if mismatch, ok := errors.AsType[*engine.AnswersError](err); ok {
		rejected := invalid(mismatch.Message)
		rejected.Body.Pending = mismatch.Pending
		return nil, rejected
	}

	if errors.Is(err, engine.ErrNotWaiting) {
		return nil, errNotWaiting(s.ID())
	}

	return checked, err
}

const (
	maxInputs   = 16
	maxToolName = 64
	maxReason   = 16 << 10 // it is part of an event
)

// answerProblem returns what is wrong with an answer of any kind, or "".
func answerProblem(a *wire.Answer) string {
	content := a.Content != nil
	switch {
	case a.ID == "":
		return "id is required"
	case a.Decision != "" && (a.Output != nil || a.Action != "" || a.IsError || content):
		return "decision excludes output, isError, action and content"
	case a.Output != nil && (a.Action != "" || a.Reason != "" || a.Input != nil || content):
		return "output excludes action, content, reason and input"
	case a.Action != "" && (a.Reason != "" || a.Input != nil || a.IsError):
		return "action excludes reason, input and isError"
	case a.Decision == "" && a.Output == nil && a.Action == "":
		return "decision, output or action is required"
	}

	switch a.Decision {
	case "", runvalue.DecisionApprove, runvalue.DecisionReject:
	default:
		return "decision must be approve or reject"
	}

	switch a.Action {
	case "", runvalue.ActionAccept, runvalue.ActionDecline, runvalue.ActionCancel:
	default:
		return "action must be accept, decline or cancel"
	}

	switch {
	case a.Reason != "" && a.Decision != runvalue.DecisionReject:
		return "reason is that of a rejection"
	case len(a.Reason) > maxReason:
		return fmt.Sprintf("reason must have at most %d bytes", maxReason)
	case a.Input != nil && a.Decision != runvalue.DecisionApprove:
		return "input is that of an approval"
	case a.Input != nil && !isObject(a.Input):
		return "input must be an object"
	case content && a.Action != runvalue.ActionAccept:
		return "content is that of the action accept"
	case content && !isObject(a.Content):
		return "content must be an object"
	}

	return ""
}

// isObject reports whether valid JSON is an object.
func isObject(data json.RawMessage) bool { return bytes.HasPrefix(bytes.TrimSpace(data), []byte{'{'}) }

// checkClientTools validates the tools of a client without those of the agent.
func checkClientTools(tools []wire.ClientTool) error {
	if len(tools) > runvalue.MaxClientTools {
		return invalid(fmt.Sprintf("clientTools must have at most %d entries", runvalue.MaxClientTools))
	}

	size := 0
	names := map[string]bool{}
	for i := range tools {
		t := &tools[i]
		lower := strings.ToLower(t.Name)
		size += len(t.Name) + len(t.Description) + len(t.InputSchema)
		switch {
		case !ids.Plain(t.Name, maxToolName) || strings.Contains(t.Name, "."):
			return invalid(fmt.Sprintf("clientTools[%d].name must be 1 to %d of A-Z, a-z, 0-9, '_' and '-'", i, maxToolName))
		case strings.HasPrefix(lower, "mcp__"):
			return invalid(fmt.Sprintf("clientTools[%d].name must not begin with mcp__", i))
		case names[lower]:
			return invalid(fmt.Sprintf("clientTools[%d].name differs from another one only by letter case", i))
		case t.InputSchema != nil && !isObject(t.InputSchema):
			return invalid(fmt.Sprintf("clientTools[%d].inputSchema must be an object", i))
		}

		names[lower] = true
	}

	if size > runvalue.MaxClientToolBytes {
		return invalid(fmt.Sprintf("clientTools must have at most %d bytes together", runvalue.MaxClientToolBytes))
	}

	return nil
}
