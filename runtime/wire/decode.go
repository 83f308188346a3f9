package wire

import (
	"encoding/json"
	"fmt"
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
