package openai

import (
	"slices"
	"strings"

	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/internal/upstream"
)

// requiresReasoning reports whether the server rejects assistant messages without
// reasoning_content: DeepSeek and Kimi in thinking mode. Behind a gateway their models are
// recognized by their name, and only after the gateway has sent the field itself, because other
// servers reject it.
func (c *Client) requiresReasoning(req *model.Request) bool {
	if c.thinks {
		return true
	}
	name := strings.ToLower(req.Model)
	if c.vendor || !strings.Contains(name, "deepseek") && !strings.Contains(name, "kimi") {
		return false
	}
	return slices.ContainsFunc(req.Messages, func(m model.Message) bool {
		return slices.ContainsFunc(m.Content, func(b model.Block) bool { return b.Field == fieldReasoningContent })
	})
}

// fillReasoning sets the reasoning of assistant messages that have none: those of another model,
// and those in which the model did not think.
func fillReasoning(list []message) {
	for i := range list {
		m := &list[i]
		if m.Role == "assistant" && (m.ReasoningContent == nil || *m.ReasoningContent == "") && m.Reasoning == nil {
			text := upstream.NoThinking
			m.ReasoningContent = &text
		}
	}
}
