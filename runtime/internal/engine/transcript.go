package engine

import (
	"crypto/sha256"
	"encoding/base32"
	"slices"

	"github.com/seed93082962/agenthost/internal/pattern"
	"github.com/seed93082962/agenthost/runtime/model"
)

const (
	// interrupted is the result of a call that did not complete.
	interrupted = "The call was interrupted before it completed."
	// unknownOutcome is the result of a call that a crash interrupted.
	unknownOutcome = "The call was interrupted, and its outcome is unknown: it may have had its effect."
)

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

// lastQuestion returns the last message of the user that has more than results, and its index.
func (t *transcript) lastQuestion() (int, string) {
	own := func(b model.Block) bool { return b.Type != model.BlockToolResult }
	for i := len(t.messages) - 1; i >= 0; i-- {
		if m := &t.messages[i]; m.Role == model.RoleUser && slices.ContainsFunc(m.Content, own) {
			return i, m.Text()
		}
	}

	return 0, ""
}

// restore returns the transcript of a session. It adds results for tool calls without one, which
// cancelled or crashed runs leave.
func restore(stored []model.Message) *transcript {
	t := &transcript{messages: make([]model.Message, 0, len(stored)+4)}
	for i := range stored {
		t.add(stored[i])
		if missing := missingResults(&stored[i], answersOf(stored[i+1:])); len(missing) > 0 {
			t.add(model.Message{Role: model.RoleUser, Content: missing})
		}
	}

	return t
}

// answersOf returns the messages before the next one of the assistant: a run that waits leaves the
// results of its calls in several messages.
func answersOf(messages []model.Message) []model.Message {
	for i := range messages {
		if messages[i].Role == model.RoleAssistant {
			return messages[:i]
		}
	}

	return messages
}

// missingResults returns a result for each tool call in m that has none in the messages.
func missingResults(m *model.Message, messages []model.Message) []model.Block {
	var missing []model.Block
	for i := range m.Content {
		call := &m.Content[i]
		if call.Type != model.BlockToolUse {
			continue
		}

		isResult := func(b model.Block) bool { return b.Type == model.BlockToolResult && b.ID == call.ID }
		if !slices.ContainsFunc(messages, func(m model.Message) bool { return slices.ContainsFunc(m.Content, isResult) }) {
			missing = append(missing, model.Block{Type: model.BlockToolResult, ID: call.ID, Text: unknownOutcome, IsError: true})
		}
	}

	return missing
}

// portable returns messages in a form that the model of origin accepts. Upstreams reject thinking
// and opaque fields that another model produced, and Mistral rejects the ids of tool calls that
// most others produce. Messages of an unknown origin are unchanged.
func portable(messages []model.Message, origin string) []model.Message {
	out := make([]model.Message, 0, len(messages))
	var foreign map[string]bool // ids of the calls of the last message of the assistant
	for _, m := range messages {
		switch {
		case m.Origin != "" && m.Origin != origin:
			m, foreign = withoutThinking(m)
		case m.Role == model.RoleAssistant:
			foreign = nil
		case foreign != nil:
			m.Content = withCallIDs(m.Content, foreign)
		}

		if m.Role != model.RoleAssistant || m.HasOutput() {
			out = append(out, m)
		}
	}

	return out
}

// withoutThinking returns the texts and the tool calls of a message without opaque fields, and the
// former ids of the calls.
func withoutThinking(m model.Message) (model.Message, map[string]bool) {
	calls := map[string]bool{}
	var content []model.Block
	for _, b := range m.Content {
		switch b.Type {
		case model.BlockThinking, model.BlockRedacted:
			continue
		case model.BlockToolUse:
			calls[b.ID] = true
			b.ID, b.Extra = portableID(b.ID), nil
		}

		content = append(content, b)
	}

	m.Content = content
	return m, calls
}

// withCallIDs returns the content of a message in which results of the calls have their portable
// ids.
func withCallIDs(content []model.Block, calls map[string]bool) []model.Block {
	out := make([]model.Block, len(content))
	for i, b := range content {
		if b.Type == model.BlockToolResult && calls[b.ID] {
			b.ID = portableID(b.ID)
		}

		out[i] = b
	}

	return out
}

var portableForm = pattern.Compile(`^[a-zA-Z0-9]{9}$`)

// portableID returns the id of a tool call in the form that Mistral requires, which is the
// strictest. The same id always has the same result, so that prompt caches match.
func portableID(id string) string {
	if portableForm().MatchString(id) {
		return id
	}

	sum := sha256.Sum256([]byte(id))
	return base32.StdEncoding.EncodeToString(sum[:])[:9]
}
