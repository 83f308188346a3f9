package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// DecodeEvent decodes the data of an event with that name. An event with an unknown name is an
// [Unknown]. Unknown fields are ignored. The payload does not refer to data.
func DecodeEvent(name string, data []byte) (Payload, error) {
	var p Payload
	switch name {
	case "system":
		p = new(System)
	case "partial_message":
		p = new(PartialMessage)
	case "assistant":
		p = new(Assistant)
	case "tool_result":
		p = new(ToolResult)
	case "result":
		p = new(Result)
	case "cancelled":
		p = new(Cancelled)
	case "error":
		p = new(Fault)
	case "done":
		p = new(Done)
	default:
		return &Unknown{Name: name, Data: append(json.RawMessage(nil), data...)}, nil
	}
	if err := json.Unmarshal(data, p); err != nil {
		return nil, fmt.Errorf("decode %s event: %w", name, err)
	}
	return p, nil
}

// AppendPartialText appends the text of a partial message with text to dst. There is one for each
// token: the form of [AppendEvent] without escapes needs no decoder.
func AppendPartialText(dst, data []byte) []byte {
	if text, ok := bytes.CutPrefix(data, partialTextHead); ok {
		if text, ok = bytes.CutSuffix(text, partialTail); ok && bytes.IndexByte(text, '\\') < 0 && bytes.IndexByte(text, '"') < 0 {
			return append(dst, text...)
		}
	}
	var p PartialMessage
	if json.Unmarshal(data, &p) != nil || p.Partial.Type != PartialText {
		return dst
	}
	return append(dst, p.Partial.Text...)
}

// Blocks is an assistant event for a program that stores the blocks as they are, also those of a
// later version.
type Blocks struct {
	ParentToolUseID *string
	Usage           Usage
	Blocks          []json.RawMessage // objects with a type
	Text            string            // of the text blocks
}

// DecodeBlocks decodes an assistant event, and of its blocks at most the first ones. Blocks that are
// not objects with a type are omitted.
func DecodeBlocks(data []byte, most int) (Blocks, error) {
	var in struct {
		ParentToolUseID *string `json:"parent_tool_use_id"`
		Message         struct {
			Content []json.RawMessage `json:"content"`
		} `json:"message"`
		Usage Usage `json:"usage"`
	}
	if err := json.Unmarshal(data, &in); err != nil {
		return Blocks{}, fmt.Errorf("decode assistant event: %w", err)
	}
	out := Blocks{ParentToolUseID: in.ParentToolUseID, Usage: in.Usage}
	var text strings.Builder
	for _, raw := range in.Message.Content[:min(len(in.Message.Content), most)] {
		var block struct{ Type, Text string }
		if json.Unmarshal(raw, &block) != nil || block.Type == "" {
			continue
		}
		out.Blocks = append(out.Blocks, raw)
		if block.Type == PartialText {
			text.WriteString(block.Text)
		}
	}
	out.Text = text.String()
	return out, nil
}

// UnmarshalJSON is the inverse of [PartialMessage.MarshalJSON].
func (p *PartialMessage) UnmarshalJSON(data []byte) error {
	var in struct {
		Partial struct {
			Type      string `json:"type"`
			Text      string `json:"text"`
			ToolName  string `json:"tool_name"`
			ToolUseID string `json:"tool_use_id"`
			ID        string `json:"id"`
		} `json:"partial"`
	}
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	p.Partial = Partial{Type: in.Partial.Type, Text: in.Partial.Text, ToolName: in.Partial.ToolName, ToolUseID: in.Partial.ToolUseID}
	if p.Partial.ToolUseID == "" {
		p.Partial.ToolUseID = in.Partial.ID
	}
	return nil
}

// UnmarshalJSON is the inverse of [Block.MarshalJSON].
func (b *Block) UnmarshalJSON(data []byte) error {
	var in struct {
		Type     string          `json:"type"`
		Text     string          `json:"text"`
		Thinking string          `json:"thinking"`
		ID       string          `json:"id"`
		Name     string          `json:"name"`
		Input    json.RawMessage `json:"input"`
	}
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	*b = Block(in)
	return nil
}
