package engine

import (
	"slices"

	"github.com/seed93082962/agenthost/runtime/model"
)

// interrupted is the result of a call that did not complete.
const interrupted = "The call was interrupted before it completed."

// transcript is a conversation in the form that model APIs accept: roles alternate.
type transcript struct {
	messages []model.Message
	merged   bool // the content of the last message is a copy
}

// add appends a message. It merges a message with the last one if both have the same role, as after
// a run that ended without a response.
func (t *transcript) add(m model.Message) {
	n := len(t.messages)
	if n == 0 || t.messages[n-1].Role != m.Role {
		t.messages = append(t.messages, m)
		t.merged = false
		return
	}
	last := &t.messages[n-1]
	if !t.merged {
		last.Content = slices.Clone(last.Content)
		t.merged = true
	}
	last.Content = append(last.Content, m.Content...)
}

// restore returns the transcript of a session. It adds results for tool calls without one, which
// cancelled or crashed runs leave.
func restore(stored []model.Message) *transcript {
	t := &transcript{messages: make([]model.Message, 0, len(stored)+4)}
	for i := range stored {
		t.add(stored[i])
		var next model.Message
		if i+1 < len(stored) {
			next = stored[i+1]
		}
		if missing := missingResults(&stored[i], &next); len(missing) > 0 {
			t.add(model.Message{Role: model.RoleUser, Content: missing})
		}
	}
	return t
}

// missingResults returns a result for each tool call in m that has none in next.
func missingResults(m, next *model.Message) []model.Block {
	var missing []model.Block
	for i := range m.Content {
		call := &m.Content[i]
		if call.Type != model.BlockToolUse {
			continue
		}
		isResult := func(b model.Block) bool { return b.Type == model.BlockToolResult && b.ID == call.ID }
		if !slices.ContainsFunc(next.Content, isResult) {
			missing = append(missing, model.Block{Type: model.BlockToolResult, ID: call.ID, Text: interrupted, IsError: true})
		}
	}
	return missing
}
