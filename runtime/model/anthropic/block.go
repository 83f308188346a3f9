package anthropic

import (
	"encoding/json"
	"strings"

	"github.com/seed93082962/agenthost/runtime/model"
)

type text struct {
	Type         string        `json:"type"`
	Text         string        `json:"text"`
	CacheControl *cacheControl `json:"cache_control,omitempty"`
}

// thought has no omitempty: models that do not show their thinking sign an empty one.
type thought struct {
	Type      string `json:"type"`
	Thinking  string `json:"thinking"`
	Signature string `json:"signature"`
}

type redacted struct {
	Type string `json:"type"`
	Data string `json:"data"`
}

type toolUse struct {
	Type         string          `json:"type"`
	ID           string          `json:"id"`
	Name         string          `json:"name"`
	Input        json.RawMessage `json:"input"`
	CacheControl *cacheControl   `json:"cache_control,omitempty"`
}

type toolResult struct {
	Type         string        `json:"type"`
	ToolUseID    string        `json:"tool_use_id"`
	Content      string        `json:"content,omitempty"`
	IsError      bool          `json:"is_error,omitempty"`
	CacheControl *cacheControl `json:"cache_control,omitempty"`
}

// blocks puts tool results first, where the API wants them, and leaves out what it refuses:
// blank text, and thinking that upstream did not sign (another vendor's, or cut off).
func blocks(content []model.Block) []any {
	list := make([]any, 0, len(content))
	for i := range content {
		if b := &content[i]; b.Type == model.BlockToolResult {
			list = append(list, result(b))
		}
	}
	for i := range content {
		switch b := &content[i]; b.Type {
		case model.BlockText:
			if !blank(b.Text) {
				list = append(list, &text{Type: "text", Text: b.Text})
			}
		case model.BlockThinking:
			if b.Signature != "" {
				list = append(list, &thought{Type: "thinking", Thinking: b.Text, Signature: b.Signature})
			}
		case model.BlockRedacted:
			list = append(list, &redacted{Type: "redacted_thinking", Data: b.Data})
		case model.BlockToolUse:
			input := b.Input
			if len(input) == 0 {
				input = json.RawMessage("{}")
			}
			list = append(list, &toolUse{Type: "tool_use", ID: toolID(b.ID), Name: b.Name, Input: input})
		case model.BlockToolResult: // done above
		}
	}
	return list
}

func result(b *model.Block) *toolResult {
	r := &toolResult{Type: "tool_result", ToolUseID: toolID(b.ID), Content: b.Text, IsError: b.IsError}
	if b.IsError && blank(r.Content) {
		r.Content = "(no output)" // an error without content is refused
	}
	return r
}

// toolID makes an id fit ^[a-zA-Z0-9_-]+$, which the API asks for and other vendors' ids, in a
// conversation that one of them began, may not meet. The same id always becomes the same.
func toolID(id string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '_', r == '-':
			return r
		}
		return '_'
	}, id)
}
