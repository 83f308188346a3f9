package model

import (
	"encoding/json"
	"strings"
)

// Role says who speaks.
type Role string

const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
)

// Message is one turn of a conversation. Its JSON form is what sessions store.
type Message struct {
	Role    Role    `json:"role"`
	Content []Block `json:"content"`
}

// Text joins the message's text blocks.
func (m Message) Text() string {
	var texts []string
	for i := range m.Content {
		if m.Content[i].Type == BlockText {
			texts = append(texts, m.Content[i].Text)
		}
	}
	return strings.Join(texts, "") // of one text that text itself
}

// ToolUses returns the message's tool calls, in their order.
func (m Message) ToolUses() []Block {
	var calls []Block
	for i := range m.Content {
		if m.Content[i].Type == BlockToolUse {
			calls = append(calls, m.Content[i])
		}
	}
	return calls
}

// UserText is a user's message of one text block.
func UserText(text string) Message {
	return Message{Role: RoleUser, Content: []Block{{Type: BlockText, Text: text}}}
}

// BlockType says what a [Block] is.
type BlockType string

const (
	BlockText       BlockType = "text"              // Text
	BlockThinking   BlockType = "thinking"          // Text, Signature
	BlockRedacted   BlockType = "redacted_thinking" // Data
	BlockToolUse    BlockType = "tool_use"          // ID, Name, Input
	BlockToolResult BlockType = "tool_result"       // ID of the call, Text (the output), IsError
)

// Block is one piece of a message.
type Block struct {
	Type BlockType `json:"type"`
	Text string    `json:"text,omitempty"`

	// Signature proves to upstream that Text is thinking of its own; Data is thinking that
	// upstream has encrypted. Both are given back upstream and shown to nobody else.
	Signature string `json:"signature,omitempty"`
	Data      string `json:"data,omitempty"`

	ID    string          `json:"id,omitempty"`
	Name  string          `json:"name,omitempty"`
	Input json.RawMessage `json:"input,omitempty"` // always a JSON object

	// BadInput is what the model wrote where it should have written a JSON object; Input is
	// then {}. The call cannot be run, only answered with an error.
	BadInput string `json:"bad_input,omitempty"`

	IsError bool `json:"is_error,omitempty"`
}
