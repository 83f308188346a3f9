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

// join appends a message to a conversation. Upstreams want the roles to alternate, so one by
// the same role as the last becomes part of it: that is what a user's message is after a run
// that ended without an answer.
func join(messages []model.Message, m model.Message) []model.Message {
	messages = slices.Clip(messages) // the array behind it belongs to the session
	if n := len(messages); n > 0 && messages[n-1].Role == m.Role {
		last := messages[n-1]
		last.Content = slices.Concat(last.Content, m.Content)
		return append(messages[:n-1:n-1], last)
	}
	return append(messages, m)
}

// repair makes a stored transcript one that an upstream takes: every tool call is answered in
// the message after it, and roles alternate. Runs that were cancelled or crashed leave calls
// without an answer.
func repair(stored []model.Message) []model.Message {
	var messages []model.Message
	for i, m := range stored {
		messages = join(messages, m)
		calls := m.ToolUses()
		if len(calls) == 0 {
			continue
		}
		answered := map[string]bool{}
		if i+1 < len(stored) {
			for _, b := range stored[i+1].Content {
				if b.Type == model.BlockToolResult {
					answered[b.ID] = true
				}
			}
		}
		var missing model.Message
		missing.Role = model.RoleUser
		for _, call := range calls {
			if !answered[call.ID] {
				missing.Content = append(missing.Content, model.Block{
					Type: model.BlockToolResult, ID: call.ID, Text: interrupted, IsError: true,
				})
			}
		}
		if len(missing.Content) > 0 {
			messages = join(messages, missing)
		}
	}
	return messages
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
