package engine

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/seed93082962/agenthost/runtime/model"
)

// interrupted is what the model is told of a call that never came to its end.
const interrupted = "The call was interrupted before it ended."

// transcript is a conversation in the form that upstreams take: roles alternate.
type transcript struct {
	messages []model.Message
	merged   bool // the content of the last message is ours, and no session's
}

// add appends a message. One by the same role as the last becomes part of it: that is what a
// user's message is after a run that ended without an answer.
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

// restore makes a transcript of what a session has stored, in which every tool call is answered
// in the message after it. Runs that were cancelled or crashed leave calls without an answer.
func restore(stored []model.Message) *transcript {
	t := &transcript{messages: make([]model.Message, 0, len(stored)+4)}
	for i := range stored {
		t.add(stored[i])
		var next model.Message
		if i+1 < len(stored) {
			next = stored[i+1]
		}
		if missing := unanswered(&stored[i], &next); len(missing) > 0 {
			t.add(model.Message{Role: model.RoleUser, Content: missing})
		}
	}
	return t
}

// unanswered makes a result for each tool call of m that next has none for.
func unanswered(m, next *model.Message) []model.Block {
	var missing []model.Block
	for i := range m.Content {
		call := &m.Content[i]
		if call.Type != model.BlockToolUse {
			continue
		}
		answers := func(b model.Block) bool { return b.Type == model.BlockToolResult && b.ID == call.ID }
		if !slices.ContainsFunc(next.Content, answers) {
			missing = append(missing, model.Block{Type: model.BlockToolResult, ID: call.ID, Text: interrupted, IsError: true})
		}
	}
	return missing
}

// cutText cuts s after at most n bytes, between two runes.
func cutText(s string, n int) (head, rest string) {
	if len(s) <= n {
		return s, ""
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n], s[n:]
}

// limitOutput keeps the head and the tail of an output that is over the limit, and says in
// between how much was cut.
func limitOutput(s string, limit int) (string, bool) {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= limit {
		return s, false
	}
	half := limit / 2
	head, rest := cutText(s, half)
	from := len(rest) - half
	for from < len(rest) && !utf8.RuneStart(rest[from]) {
		from++
	}
	return head + "\n[" + strconv.Itoa(from) + " bytes cut]\n" + rest[from:], true
}
