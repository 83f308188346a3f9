package model

import (
	"encoding/json"
	"slices"
	"strings"
)

// Role is the author of a message.
type Role string

const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
)

// Message is one turn of a conversation. Its JSON form is what sessions store.
type Message struct {
	Role    Role    `json:"role"`
	Content []Block `json:"content"`

	// Origin identifies the upstream and the model of an assistant message. It is not sent.
	Origin string `json:"origin,omitempty"`
}

// HasOutput reports whether the message has a text or a tool call. Model APIs reject an assistant
// message without output, which has only thinking or nothing.
func (m Message) HasOutput() bool {
	return slices.ContainsFunc(m.Content, func(b Block) bool { return b.Type == BlockText || b.Type == BlockToolUse })
}

// Text returns the text blocks of the message, concatenated.
func (m Message) Text() string {
	var texts []string
	for i := range m.Content {
		if m.Content[i].Type == BlockText {
			texts = append(texts, m.Content[i].Text)
		}
	}

	return strings.Join(texts, "")
}

// Size returns the approximate number of bytes of the message in memory.
func (m *Message) Size() int {
	size := messageSize
	for i := range m.Content {
		b := &m.Content[i]
		size += len(b.Text) + len(b.Signature) + len(b.Data) + len(b.Field) + len(b.Details) +
			len(b.ID) + len(b.Name) + len(b.Input) + len(b.Extra) + len(b.BadInput) + len(b.PDF) + blockSize
		for j := range b.Images {
			size += len(b.Images[j].MediaType) + len(b.Images[j].Data)
		}
	}

	return size
}

// messageSize is the estimated size of a message without its blocks.
const messageSize = 128

// blockSize is the estimated size of a content block without its text.
const blockSize = 512

// ToolUses returns the tool calls of the message in order.
func (m Message) ToolUses() []Block {
	var calls []Block
	for i := range m.Content {
		if m.Content[i].Type == BlockToolUse {
			calls = append(calls, m.Content[i])
		}
	}

	return calls
}

// UserText returns a user message with one text block.
func UserText(text string) Message {
	return Message{Role: RoleUser, Content: []Block{{Type: BlockText, Text: text}}}
}

// BlockType is the type of a [Block]. The comments name the fields that it uses.
type BlockType string

const (
	BlockText       BlockType = "text"              // Text
	BlockThinking   BlockType = "thinking"          // Text, Signature, Field, Details
	BlockRedacted   BlockType = "redacted_thinking" // Data
	BlockToolUse    BlockType = "tool_use"          // ID, Name, Input, Extra
	BlockToolResult BlockType = "tool_result"       // ID of the call, Text (the output), Images, IsError
	BlockImage      BlockType = "image"             // of a user: Name, Images (one)
	BlockFile       BlockType = "file"              // of a user: Name, Text (of a text file) or PDF
)

// Block is one content block of a message.
type Block struct {
	Type BlockType `json:"type"`
	Text string    `json:"text,omitempty"`

	// Signature is upstream's proof that Text is its own thinking. Data is thinking in encrypted
	// form. Both are sent back only to upstream.
	Signature string `json:"signature,omitempty"`
	Data      string `json:"data,omitempty"`

	// Field is the name of the message field that contained the thinking, if the wire format has
	// several such fields. The thinking is sent back in the same field, even if Text is empty.
	// Details is the array of OpenRouter's reasoning_details.
	Field   string          `json:"field,omitempty"`
	Details json.RawMessage `json:"details,omitempty"`

	ID    string          `json:"id,omitempty"`
	Name  string          `json:"name,omitempty"`
	Input json.RawMessage `json:"input,omitempty"` // always a JSON object

	// Extra is a JSON object of the fields of a tool call that the adapter does not know, such as
	// Gemini's thought signature. They are sent back unchanged.
	Extra json.RawMessage `json:"extra,omitempty"`

	// BadInput is the input that the model sent if it is not a JSON object. Input is then {}, and
	// the result of the call is an error.
	BadInput string `json:"bad_input,omitempty"`

	// Images of a tool result are in addition to Text, which describes them for upstreams that do not
	// accept images. An upstream that does not accept an image or a file of a user returns an error.
	Images []Image `json:"images,omitempty"`
	PDF    []byte  `json:"pdf,omitempty"`

	IsError bool `json:"is_error,omitempty"`
}

// Bytes returns the number of bytes of the images or of the file of a block.
func (b *Block) Bytes() int {
	n := len(b.PDF)
	if b.Type == BlockFile {
		n += len(b.Text)
	}

	for i := range b.Images {
		n += len(b.Images[i].Data)
	}

	return n
}

// Image is an image of a user or of a tool result. It may be any bytes that begin as its type does.
type Image struct {
	MediaType string `json:"media_type"` // image/png, image/jpeg, image/gif or image/webp
	Data      []byte `json:"data"`
}
