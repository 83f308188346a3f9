package relay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/seed93082962/agenthost/internal/jsonlimit"
	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// Types of the blocks of a stored message besides those of [wire.Block] and of system events.
const (
	blockToolResult      = "tool_result"
	blockSubagentMessage = "subagent_message"
	blockStructured      = "structured"
)

// blockLimit bounds the JSON of a block. Its bytes are bounded by those of its message.
var blockLimit = jsonlimit.Limit{Values: 1 << 21, Depth: 1000}

// Block is a block of a stored message. JSON has the members of its type, and a block of an unknown
// type is any object with unique names.
type Block struct {
	Type string
	Text string // of a text block
	JSON []byte
}

// errNoBlock is the error of a value that is not a block.
var errNoBlock = errors.New("must be an object with a type")

// DecodeBlock decodes a block of another program. The error is for its author, such as "text must
// be a string, not object".
func DecodeBlock(data []byte) (Block, error) { return decodeBlock(data, false) }

// decodeBlock decodes a block, which may be inside a message of a subagent.
func decodeBlock(data []byte, inside bool) (Block, error) {
	if err := blockLimit.Check(data); err != nil {
		return Block{}, err
	}

	var head struct {
		Type string `json:"type"`
	}
	err := jsonlimit.Unmarshal(data, &head)
	if fault, ok := errors.AsType[*jsonlimit.Error](err); ok && fault.Field != "" && fault.Field != "type" {
		return Block{}, err
	}

	if err != nil || head.Type == "" {
		return Block{}, errNoBlock
	}

	block := Block{Type: head.Type}
	form := formOf(head.Type)
	if form == nil {
		block.JSON, err = blockLimit.Compact(data)
		return block, err
	}

	if err := jsonlimit.Unmarshal(data, form); err != nil {
		return Block{}, err
	}

	switch form := form.(type) {
	case *textBlock:
		block.Text = form.Text
	case *subagentBlock:
		if inside {
			return Block{}, &jsonlimit.Error{Field: "type", Message: "must not be " + blockSubagentMessage + " inside of another one"}
		}

		if err := form.decode(); err != nil {
			return Block{}, err
		}
	}

	block.JSON, err = encodeBlock(form)
	return block, err
}

// formOf returns the members of a type, or nil if it is unknown.
func formOf(kind string) any {
	switch kind {
	case wire.PartialText:
		return new(textBlock)
	case wire.PartialThinking:
		return new(thinkingBlock)
	case wire.PartialToolUse:
		return new(toolUseBlock)
	case blockToolResult:
		return new(toolResultBlock)
	case blockSubagentMessage:
		return new(subagentBlock)
	case blockStructured:
		return new(structuredBlock)
	case runvalue.SystemPermissionDenied, runvalue.SystemAnswered, runvalue.SystemMCPStatus, runvalue.SystemWarning, runvalue.SystemCompactBoundary:
		return new(systemBlock)
	}

	return nil
}

func encodeBlock(form any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(form); err != nil {
		return nil, fmt.Errorf("encode block: %w", err)
	}

	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), nil
}

type textBlock struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type thinkingBlock struct {
	Type     string `json:"type"`
	Thinking string `json:"thinking"`
}

type toolUseBlock struct {
	Type  string `json:"type"`
	ID    string `json:"id"`
	Name  string `json:"name"`
	Input object `json:"input"`
}

// object is any JSON object.
type object struct{ json.RawMessage }

// UnmarshalJSON decodes an object, or null as an absent one.
func (o *object) UnmarshalJSON(data []byte) error {
	switch {
	case string(data) == "null":
		return nil
	case data[0] != '{':
		return &jsonlimit.Error{Message: "must be an object"}
	}

	compact, err := blockLimit.Compact(data)
	o.RawMessage = compact
	return err
}

// MarshalJSON encodes an absent object as an empty one.
func (o object) MarshalJSON() ([]byte, error) {
	if o.RawMessage == nil {
		return []byte("{}"), nil
	}

	return o.RawMessage, nil
}

// toolResultBlock is the block of a tool result. That of an answer has a shortened output.
type toolResultBlock struct {
	Type            string `json:"type"`
	ParentToolUseID string `json:"parent_tool_use_id,omitempty"` // of a subagent
	ToolUseID       string `json:"tool_use_id"`
	ToolName        string `json:"tool_name"`
	Output          string `json:"output"`
	IsError         bool   `json:"is_error"`
	DurationMs      int64  `json:"duration_ms"`
	Truncated       bool   `json:"truncated"`
}

// UnmarshalJSON also decodes the result of the API of a model, which has its output as content: a
// text, or blocks of which those with text are stored.
func (b *toolResultBlock) UnmarshalJSON(data []byte) error {
	type block toolResultBlock
	in := struct {
		*block

		Content json.RawMessage `json:"content"`
	}{block: (*block)(b)}
	if err := jsonlimit.Unmarshal(data, &in); err != nil || b.Output != "" || len(in.Content) == 0 {
		return err
	}

	if jsonlimit.Unmarshal(in.Content, &b.Output) == nil {
		return nil
	}

	var blocks jsonlimit.List[textBlock]
	if err := jsonlimit.Unmarshal(in.Content, &blocks); err != nil {
		return &jsonlimit.Error{Field: "content", Message: "must be a string or an array of blocks"}
	}

	var texts []string
	for _, text := range blocks.Items {
		if text.Type == wire.PartialText {
			texts = append(texts, text.Text)
		}
	}

	b.Output = strings.Join(texts, "\n\n")
	return nil
}

// structuredBlock has the value of the text before it, of a run with an output schema.
type structuredBlock struct {
	Type  string `json:"type"`
	Value object `json:"value"`
}

// StructuredOf returns the output that the blocks of a message have, or nil.
func StructuredOf(content json.RawMessage) json.RawMessage {
	for raw := range jsonlimit.Elements(content) {
		var block structuredBlock
		if bytes.HasPrefix(raw, []byte(`{"type":"`+blockStructured+`"`)) && jsonlimit.Unmarshal(raw, &block) == nil {
			return block.Value.RawMessage
		}
	}

	return nil
}

// subagentBlock is a message of a subagent.
type subagentBlock struct {
	Type            string            `json:"type"` // subagent_message
	ParentToolUseID string            `json:"parent_tool_use_id"`
	Content         []json.RawMessage `json:"content"`
}

// decode decodes the blocks of the message.
func (b *subagentBlock) decode() error {
	if b.Content == nil {
		b.Content = []json.RawMessage{}
	}

	for i, raw := range b.Content {
		inner, err := decodeBlock(raw, true)
		if err != nil {
			return At(i, err)
		}

		b.Content[i] = inner.JSON
	}

	return nil
}

// At returns the error of the block with that index, such as "content[1].text must be a string, not
// object".
func At(index int, err error) error {
	field, message := fmt.Sprintf("content[%d]", index), err.Error()
	if fault, ok := errors.AsType[*jsonlimit.Error](err); ok && fault.Field != "" {
		field, message = field+"."+fault.Field, fault.Message
	}

	return &jsonlimit.Error{Field: field, Message: message}
}

// systemBlock is a system event: its type is the subtype of the event.
type systemBlock struct {
	Type            string                `json:"type"`
	ToolName        string                `json:"tool_name,omitempty"`
	ToolUseID       string                `json:"tool_use_id,omitempty"`
	Kind            string                `json:"kind,omitempty"`
	Decision        string                `json:"decision,omitempty"`
	UserID          string                `json:"user_id,omitempty"`
	UserName        string                `json:"user_name,omitempty"`
	AnsweredAt      string                `json:"answered_at,omitempty"`
	Reason          string                `json:"reason,omitempty"`
	Name            string                `json:"name,omitempty"`
	Status          string                `json:"status,omitempty"`
	Error           string                `json:"error,omitempty"`
	Message         string                `json:"message,omitempty"`
	CompactMetadata *wire.CompactMetadata `json:"compact_metadata,omitempty"`
}

// maxFaults bounds the blocks of a stored message that cannot be decoded. Those after them are
// omitted, because a fault takes longer than a block.
const maxFaults = 1000

// unreadable is the block in place of those that cannot be decoded.
var unreadable = systemBlock{Type: runvalue.SystemWarning, Message: "A part of this message cannot be displayed."}

// StoredBlocks returns the JSON array of the blocks of a stored message. Those that an earlier
// version has stored in another form are replaced by one warning: they hide no other block.
func StoredBlocks(content string) []byte {
	data := bytes.TrimSpace([]byte(content))
	out := make([]byte, 1, len(data)+2)
	out[0] = '['
	add := func(block []byte) {
		if len(out) > 1 {
			out = append(out, ',')
		}

		out = append(out, block...)
	}
	faults := 0
	if !json.Valid(data) || data[0] != '[' {
		data = nil
		faults++
	}

	for raw := range jsonlimit.Elements(data) {
		if isText(raw) {
			add(raw)
			continue
		}

		block, err := DecodeBlock(raw)
		if err == nil {
			add(block.JSON)
			continue
		}

		if faults++; faults == maxFaults {
			break
		}
	}

	if faults > 0 {
		if warning, err := encodeBlock(unreadable); err == nil {
			add(warning)
		}
	}

	return append(out, ']')
}

// isText reports whether valid JSON is a block with a text and nothing else, as the hub encodes it.
// Most stored blocks are texts.
func isText(block []byte) bool {
	rest, found := bytes.CutPrefix(block, []byte(`{"type":"text","text":"`))
	for found {
		end := bytes.IndexByte(rest, '"')
		escapes := 0
		for escapes < end && rest[end-1-escapes] == '\\' {
			escapes++
		}

		if end < 0 || escapes%2 == 0 {
			return end == len(rest)-2
		}

		rest = rest[end+1:]
	}

	return false
}
