package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/seed93082962/agenthost/internal/excerpt"
	"github.com/seed93082962/agenthost/internal/jsonlimit"

	"github.com/seed93082962/agenthost/internal/runvalue"
)

// Append appends the JSON of the payload to dst. It truncates texts so that the JSON has at most
// 4 MiB - 1 bytes, and sets the field truncated. If the JSON without its texts is too long, it
// returns an error and dst unchanged.
func (e Event) Append(dst []byte) ([]byte, error) {
	out, err := appendEvent(dst, e.Payload)
	if err == nil && len(out)-len(dst) > runvalue.MaxData {
		err = errTooLong
	}

	if err != nil {
		return dst, fmt.Errorf("encode %s event: %w", e.EventName(), err)
	}

	return out, nil
}

var errTooLong = errors.New("the JSON is longer than an event may be")

func appendEvent(dst []byte, p Payload) ([]byte, error) {
	switch p := p.(type) {
	case *PartialMessage:
		return appendPartial(dst, &p.Partial), nil
	case *Unknown:
		return append(dst, p.Data...), nil
	}

	out, err := appendJSON(dst, p)
	if err != nil {
		return dst, err
	}

	// JSON may be six times as long as its text because of escapes. The room for text is found by
	// trial; few events are that long.
	for room := runvalue.MaxData / 2; len(out)-len(dst) > runvalue.MaxData && room > 0; room /= 2 {
		if out, err = appendJSON(out[:len(dst)], shorten(p, room)); err != nil {
			return dst, err
		}
	}

	return out, nil
}

// appendJSON appends the JSON of v without escapes for HTML.
func appendJSON(dst []byte, v any) ([]byte, error) {
	buf := bytes.NewBuffer(dst)
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return dst, err
	}

	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

// MarshalJSON encodes all fields of the type of the block, and only those.
func (b Block) MarshalJSON() ([]byte, error) {
	dst := append([]byte(`{"type":`), jsonlimit.AppendString(nil, b.Type)...)
	switch b.Type {
	case PartialThinking:
		dst = jsonlimit.AppendString(append(dst, `,"thinking":`...), b.Thinking)
	case PartialToolUse:
		dst = jsonlimit.AppendString(append(dst, `,"id":`...), b.ID)
		dst = jsonlimit.AppendString(append(dst, `,"name":`...), b.Name)
		dst = append(dst, `,"input":`...)
		if len(b.Input) == 0 {
			dst = append(dst, "{}"...)
		}

		dst = append(dst, b.Input...)
	default:
		dst = jsonlimit.AppendString(append(dst, `,"text":`...), b.Text)
	}

	return append(dst, '}'), nil
}

// shorten returns a copy of an event whose texts have at most room bytes.
func shorten(p Payload, room int) Payload {
	switch p := p.(type) {
	case *Assistant:
		short := *p
		short.Truncated = true
		short.Message.Content = slices.Clone(p.Message.Content)
		for i := range short.Message.Content {
			b := &short.Message.Content[i]
			b.Text = take(b.Text, &room)
			b.Thinking = take(b.Thinking, &room)
			if len(b.Input) > room {
				b.Input = json.RawMessage("{}") // a truncated object is not valid
			}

			room -= len(b.Input)
		}

		return &short
	case *Result:
		short := *p
		short.Truncated = true
		if p.Result != nil {
			text := take(*p.Result, &room)
			short.Result = &text
		}

		short.Errors = slices.Clone(p.Errors)
		for i := range short.Errors {
			short.Errors[i] = take(short.Errors[i], &room)
		}

		short.PermissionDenials = p.PermissionDenials[:min(len(p.PermissionDenials), room/denialBytes)]
		return &short
	case *ToolResult:
		short := *p
		short.Result.Truncated = true
		short.Result.Output = take(p.Result.Output, &room)
		return &short
	default:
		return p
	}
}

// denialBytes is an upper limit for the size of a permission denial.
const denialBytes = 1 << 10

// take returns the longest prefix of s that fits into room, and subtracts its length from room.
func take(s string, room *int) string {
	head := excerpt.Head(s, *room)
	*room -= len(head)
	return head
}

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

	if err := jsonlimit.Unmarshal(data, p); err != nil {
		return nil, fmt.Errorf("decode %s event: %w", name, err)
	}

	return p, nil
}

// DecodeOutcome decodes the data of a result event without its text, which the messages before it
// have.
func (p *Result) DecodeOutcome(data []byte) error {
	var in struct {
		Result

		Text ignored `json:"result"`
	}
	before, _, after := cutString(data, []byte(`"result":"`))
	if !bytes.Contains(before, []byte(`"pending"`)) { // the input of a call may have a member of this name
		data = slices.Concat(before, after)
	}

	if err := jsonlimit.Unmarshal(data, &in); err != nil {
		return fmt.Errorf("decode result event: %w", err)
	}

	*p = in.Result
	return nil
}

// ignored is a value that is not decoded.
type ignored struct{}

func (*ignored) UnmarshalJSON([]byte) error { return nil }

// Blocks is an assistant event for a program that stores the JSON of its blocks.
type Blocks struct {
	ParentToolUseID *string
	Model           string
	Usage           Usage
	Blocks          []json.RawMessage // as [Block] encodes them
	Text            string            // of the text blocks
}

// inputLimit bounds the input of a call, which is any JSON.
var inputLimit = jsonlimit.Limit{Values: 1 << 18, Depth: 1000}

// Decode decodes the data of an assistant event, and of its blocks at most the first ones. Blocks
// that are not of the types of [Block] are omitted, and so are other members. Blocks may refer to
// data.
func (b *Blocks) Decode(data []byte, most int) error {
	short, block, text := cutText(data)
	out, found, err := decodeBlocks(short, most, block, text)
	if block != nil && !found { // it is not one of the blocks, or data is not valid
		out, _, err = decodeBlocks(data, most, nil, nil)
	}

	*b = out
	return err
}

// mark is the JSON value in place of a block that was cut.
var mark = []byte(`"\u0000"`)

// cutText cuts the first block with text from data, if the block has the form that the encoder
// writes and data has no mark. It returns data with the mark in place of the block, the block, and
// its text.
func cutText(data []byte) ([]byte, []byte, []byte) {
	head, tail := []byte(`{"type":"text","text":"`), []byte(`"}`)
	before, text, after := cutString(data, head)
	if text == nil || !bytes.HasPrefix(after, tail) || bytes.Contains(data, mark) {
		return data, nil, nil
	}

	begin, end := len(before)-len(head), len(data)-len(after)+len(tail)
	return slices.Concat(data[:begin], mark, data[end:]), data[begin:end], text
}

// cutString returns data before the first string whose first quote ends head, the text of this
// string, and data after it. The text is nil unless it has the form that the encoder writes.
// encoding/json reads a long string two to six times.
func cutString(data, head []byte) ([]byte, []byte, []byte) {
	begin := bytes.Index(data, head) + len(head)
	if begin < len(head) {
		return data, nil, nil
	}

	text, n := appendUnquoted([]byte{}, data[begin:])
	if n < 0 {
		return data, nil, nil
	}

	return data[:begin], text, data[begin+n:]
}

// decodeBlocks decodes an assistant event with the mark in place of a block, which is nil for none.
// It reports whether the event has the block.
func decodeBlocks(data []byte, most int, cut, cutText []byte) (Blocks, bool, error) {
	var in struct {
		ParentToolUseID *string `json:"parent_tool_use_id"`
		Message         struct {
			Model   string            `json:"model"`
			Content []json.RawMessage `json:"content"`
		} `json:"message"`
		Usage Usage `json:"usage"`
	}
	if err := jsonlimit.Unmarshal(data, &in); err != nil {
		return Blocks{}, false, fmt.Errorf("decode assistant event: %w", err)
	}

	out := Blocks{ParentToolUseID: in.ParentToolUseID, Model: in.Message.Model, Usage: in.Usage}
	var text []byte
	var found bool
	for _, raw := range in.Message.Content[:min(len(in.Message.Content), most)] {
		if cut != nil && bytes.Equal(raw, mark) {
			out.Blocks, text, found = append(out.Blocks, cut), append(text, cutText...), true
			continue
		}

		var block Block
		if jsonlimit.Unmarshal(raw, &block) != nil || !block.known() {
			continue
		}

		block.Input = cleanInput(block.Input)
		again, err := block.MarshalJSON()
		if err != nil {
			return Blocks{}, false, fmt.Errorf("encode block: %w", err)
		}

		out.Blocks = append(out.Blocks, again)
		if block.Type == PartialText {
			text = append(text, block.Text...)
		}
	}

	out.Text = string(text)
	return out, found, nil
}

// known reports whether the block has a type of this version.
func (b *Block) known() bool {
	return b.Type == PartialText || b.Type == PartialThinking || b.Type == PartialToolUse
}

// cleanInput returns the JSON of the input of a call, or nil if it is not an object in the bounds.
// It is any JSON: only its names are unique.
func cleanInput(input json.RawMessage) json.RawMessage {
	clean, err := inputLimit.Compact(input)
	if err != nil || len(clean) == 0 || clean[0] != '{' {
		return nil
	}

	return clean
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
	if err := jsonlimit.Unmarshal(data, &in); err != nil {
		return err
	}

	*b = Block(in)
	return nil
}
