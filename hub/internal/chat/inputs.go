package chat

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/chat/relay"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/internal/runvalue"
	runtimewire "github.com/seed93082962/agenthost/runtime/wire"
)

const (
	maxToolName = 64   // characters
	maxReason   = 2000 // characters
)

var inputs = []string{runvalue.InputApproval, runvalue.InputClientTool, runvalue.InputQuestion}

// checkInputs adds the faults of what a message says about answers that wait.
func checkInputs(fields api.Fields, in wire.ChatMessageRequest) {
	for i, kind := range in.Inputs {
		if i >= len(inputs) || !slices.Contains(inputs, kind) || slices.Contains(in.Inputs[:i], kind) {
			fields.Add("inputs", "must have each of approval, client_tool and question at most once")
			return
		}
	}

	if len(in.ClientTools) > runvalue.MaxClientTools {
		fields.Add("clientTools", fmt.Sprintf("must have at most %d elements", runvalue.MaxClientTools))
		return
	}

	if len(in.ClientTools) > 0 && !slices.Contains(in.Inputs, runvalue.InputClientTool) {
		fields.Add("clientTools", "need client_tool in inputs")
	}

	size := 0
	seen := map[string]bool{}
	for i, tool := range in.ClientTools {
		at := fmt.Sprintf("clientTools[%d].", i)
		name := strings.ToLower(tool.Name)
		if !ids.Plain(tool.Name, maxToolName) || strings.Contains(name, ".") || strings.HasPrefix(name, "mcp__") || seen[name] {
			fields.Add(at+"name", fmt.Sprintf("must be 1 to %d letters, digits, _ and -, unlike the other names in any letter case, and not begin with mcp__", maxToolName))
		}

		if tool.InputSchema != nil && !isObject(tool.InputSchema) {
			fields.Add(at+"inputSchema", "must be an object")
		}

		seen[name] = true
		size += len(tool.Name) + len(tool.Description) + len(tool.InputSchema)
	}

	if size > runvalue.MaxClientToolBytes {
		fields.Add("clientTools", fmt.Sprintf("must have at most %d KiB", runvalue.MaxClientToolBytes>>10))
	}
}

// withoutNulls makes a null of JSON an absent value.
func withoutNulls(in wire.ChatMessageRequest) {
	clear := func(value *json.RawMessage) {
		if string(*value) == "null" {
			*value = nil
		}
	}
	for i := range in.ClientTools {
		clear(&in.ClientTools[i].InputSchema)
	}

	for i := range in.Answers {
		clear(&in.Answers[i].Input)
		clear(&in.Answers[i].Content)
	}
}

// isObject reports whether JSON is an object.
func isObject(data json.RawMessage) bool { return bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) }

// checkAnswers adds the faults of answers that do not depend on what waits.
func checkAnswers(fields api.Fields, answers []runtimewire.Answer) {
	if len(answers) > runvalue.MaxPending {
		fields.Add("answers", fmt.Sprintf("must have at most %d elements", runvalue.MaxPending))
		return
	}

	for i, a := range answers {
		at := fmt.Sprintf("answers[%d].", i)
		if slices.ContainsFunc(answers[:i], func(b runtimewire.Answer) bool { return a.ID == b.ID }) {
			fields.Add(at+"id", "must not occur twice")
		}

		if a.Reason != relay.Clean(a.Reason) || utf8.RuneCountInString(a.Reason) > maxReason {
			fields.Add(at+"reason", fmt.Sprintf("must be UTF-8 without NUL of at most %d characters", maxReason))
		}
	}
}

// checkAnswer adds the faults of the answer of a call with that kind.
func checkAnswer(fields api.Fields, at, kind string, a runtimewire.Answer) {
	approve, reject := a.Decision == runvalue.DecisionApprove, a.Decision == runvalue.DecisionReject
	accept := a.Action == runvalue.ActionAccept
	for name, fault := range map[string]struct {
		wrong bool
		want  string
	}{
		"decision": {(kind == runvalue.InputApproval) != (approve || reject) || a.Decision != "" && !approve && !reject, "must be approve or reject, of an approval"},
		"output":   {(kind == runvalue.InputClientTool) != (a.Output != nil), "must be the text of the result, of a client tool"},
		"isError":  {a.IsError && kind != runvalue.InputClientTool, "must be that of a client tool"},
		"action": {
			(kind == runvalue.InputQuestion) != (accept || a.Action == runvalue.ActionDecline || a.Action == runvalue.ActionCancel),
			"must be accept, decline or cancel, of a question",
		},
		"reason":  {a.Reason != "" && !reject, "must be that of a rejection"},
		"input":   {a.Input != nil && (!approve || !isObject(a.Input)), "must be an object, of an approval"},
		"content": {a.Content != nil && (!accept || !isObject(a.Content)), "must be an object, of the action accept"},
	} {
		if fault.wrong {
			fields.Add(at+name, fault.want)
		}
	}
}
