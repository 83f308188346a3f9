package anthropic

import (
	"encoding/json"
	"strings"

	"github.com/seed93082962/agenthost/runtime/model"
)

type textBlock struct {
	Type         string        `json:"type"`
	Text         string        `json:"text"`
	CacheControl *cacheControl `json:"cache_control,omitempty"`
}

// thought has no omitempty: models that do not show their thinking sign an empty text.
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
	Content      any           `json:"content,omitempty"` // a string, or blocks where the result has images
	IsError      bool          `json:"is_error,omitempty"`
	CacheControl *cacheControl `json:"cache_control,omitempty"`
}

// blocks returns the content of a message with tool results first, as the API requires. It leaves
// out blank text, which the API rejects. Thinking without a signature is left out unless unsigned
// is set.
func blocks(content []model.Block, unsigned bool) []any {
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
				list = append(list, &textBlock{Type: "text", Text: b.Text})
			}
		case model.BlockThinking:
			if b.Signature != "" || unsigned && !blank(b.Text) {
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
		case model.BlockToolResult: // appended above
		}
	}
	return list
}

func result(b *model.Block) *toolResult {
	r := &toolResult{Type: "tool_result", ToolUseID: toolID(b.ID), IsError: b.IsError}
	switch {
	case b.IsError && blank(b.Text):
		r.Content = "(no output)" // an error without content is rejected
	case len(b.Images) > 0 && !b.IsError: // an error may have only text
		r.Content = withImages(b)
	case b.Text != "":
		r.Content = b.Text
	}
	return r
}

type image struct {
	Type   string      `json:"type"`
	Source imageSource `json:"source"`
}

type imageSource struct {
	Type      string `json:"type"`
	MediaType string `json:"media_type"`
	Data      []byte `json:"data"`
}

func withImages(b *model.Block) []any {
	var list []any
	if !blank(b.Text) {
		list = append(list, &textBlock{Type: "text", Text: b.Text})
	}
	for _, v := range b.Images {
		list = append(list, &image{Type: "image", Source: imageSource{Type: "base64", MediaType: v.MediaType, Data: v.Data}})
	}
	return list
}

// toolID returns an id of the form ^[a-zA-Z0-9_-]+$, which the API requires. A conversation that
// began with another vendor may have other ids. The same id always has the same result.
func toolID(id string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '_', r == '-':
			return r
		}
		return '_'
	}, id)
}
