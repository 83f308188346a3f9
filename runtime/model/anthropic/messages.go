package anthropic

import (
	"slices"

	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/internal/upstream"
)

// messages returns the conversation. Messages without content are left out.
func (c *Client) messages(history []model.Message) []message {
	list := make([]message, 0, len(history))
	unsigned := !c.vendor && !signs(history)
	for _, m := range history {
		content := blocks(m.Content, unsigned)
		if m.Role == model.RoleAssistant {
			content = c.endsWithOutput(content)
		}
		switch n := len(list); {
		case len(content) == 0:
		case n > 0 && list[n-1].Role == m.Role:
			list[n-1].Content = append(list[n-1].Content, content...)
		default:
			list = append(list, message{Role: m.Role, Content: content})
		}
	}
	return list
}

// endsWithOutput returns the content of an assistant message without the thinking at its end, which
// the API rejects. A response that reached the output limit may end like that. Where a server
// requires thinking, a message without it gets an empty one.
func (c *Client) endsWithOutput(content []any) []any {
	for len(content) > 0 && isThinking(content[len(content)-1]) {
		content = content[:len(content)-1]
	}
	if c.thinks && len(content) > 0 && !slices.ContainsFunc(content, isThinking) {
		content = slices.Insert(content, 0, any(&thought{Type: "thinking", Thinking: upstream.NoThinking}))
	}
	return content
}

func isThinking(block any) bool {
	switch block.(type) {
	case *thought, *redacted:
		return true
	}
	return false
}

// startedWithoutThinking reports whether the model has not finished its turn and started it without
// thinking, as after a summary of the conversation. The API rejects a thinking budget then. A turn
// continues after each tool result.
func startedWithoutThinking(list []message) bool {
	start := len(list)
	for start > 0 && (list[start-1].Role == model.RoleAssistant || hasResult(list[start-1].Content)) {
		start--
	}
	return start < len(list) && !isThinking(list[start].Content[0])
}

func hasResult(content []any) bool {
	_, ok := content[0].(*toolResult)
	return ok
}

// signs reports whether the server signs its thinking. Such a server rejects thinking without a
// signature, which is incomplete. Compatible servers that do not sign require their thinking to be
// sent back.
func signs(history []model.Message) bool {
	return slices.ContainsFunc(history, func(m model.Message) bool {
		return slices.ContainsFunc(m.Content, func(b model.Block) bool {
			return b.Type == model.BlockThinking && b.Signature != "" || b.Type == model.BlockRedacted
		})
	})
}
