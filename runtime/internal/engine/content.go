package engine

import (
	"encoding/json"

	"github.com/seed93082962/agenthost/internal/excerpt"
	"github.com/seed93082962/agenthost/runtime/model"
)

// Bounds of the content in one attribute of a span, in bytes.
const (
	maxContent = 16 << 10
	maxText    = 2 << 10 // of one of several texts
)

// tracedMessage is a message as the semantic conventions for generative AI encode it.
type tracedMessage struct {
	Role         string       `json:"role"`
	Parts        []tracedPart `json:"parts"`
	FinishReason string       `json:"finish_reason,omitempty"`
}

// tracedPart is a part of a message. Type is text, reasoning, tool_call, tool_call_response, image
// or file. An image and a file have only their name.
type tracedPart struct {
	Type      string          `json:"type"`
	Content   string          `json:"content,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Response  string          `json:"response,omitempty"`
}

// messagesContent returns the JSON of the last messages that fit into an attribute.
func messagesContent(messages []model.Message, finish string) string {
	text := []byte("]")
	for i := len(messages) - 1; i >= 0; i-- {
		message, err := json.Marshal(traced(&messages[i], finish))
		if err != nil || len(message)+len(text) >= maxContent {
			break
		}

		if len(text) > 1 {
			message = append(message, ',')
		}

		text = append(message, text...)
	}

	return "[" + string(text)
}

func traced(m *model.Message, finish string) tracedMessage {
	t := tracedMessage{Role: string(m.Role), Parts: []tracedPart{}, FinishReason: finish}
	for i := range m.Content {
		b := &m.Content[i]
		part := tracedPart{Content: excerpt.Shorten(b.Text, maxText)}
		switch b.Type {
		case model.BlockText:
			part.Type = "text"
		case model.BlockThinking:
			part.Type = "reasoning"
		case model.BlockToolUse:
			part.Type = "tool_call"
			part.ID, part.Name = excerpt.Shorten(b.ID, maxValue), b.Name
			if len(b.Input) <= maxText {
				part.Arguments = b.Input
			}
		case model.BlockToolResult:
			part.Type = "tool_call_response"
			part.ID = excerpt.Shorten(b.ID, maxValue)
			part.Content, part.Response = "", part.Content
		case model.BlockImage, model.BlockFile:
			part.Type, part.Name, part.Content = string(b.Type), b.Name, ""
		default:
			continue // redacted thinking is opaque
		}

		t.Parts = append(t.Parts, part)
	}

	return t
}

// textContent returns the JSON of one text.
func textContent(text string) string {
	data, err := json.Marshal([]tracedPart{{Type: "text", Content: excerpt.Shorten(text, maxContent/2)}})
	if err != nil {
		return ""
	}

	return string(data)
}
