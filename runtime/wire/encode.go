package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// MaxData is the maximum size of the JSON of one event, in bytes. Longer texts are truncated.
const MaxData = 4<<20 - 1

// AppendEvent appends the JSON of a payload to dst. It truncates texts so that the JSON has at most
// [MaxData] bytes, and sets the field truncated. If the JSON without its texts is too long, it
// returns an error and dst unchanged.
func AppendEvent(dst []byte, p Payload) ([]byte, error) {
	out, err := appendEvent(dst, p)
	if err == nil && len(out)-len(dst) > MaxData {
		err = errTooLong
	}
	if err != nil {
		return dst, fmt.Errorf("encode %s event: %w", p.EventName(), err)
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
	for room := MaxData / 2; len(out)-len(dst) > MaxData && room > 0; room /= 2 {
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

// appendPartial appends a partial message. There is one for each token.
func appendPartial(dst []byte, p *Partial) []byte {
	dst = append(dst, partialHead...)
	dst = AppendString(dst, p.Type)
	if p.Type == PartialToolUse {
		dst = append(dst, `,"tool_name":`...)
		dst = AppendString(dst, p.ToolName)
		dst = append(dst, `,"tool_use_id":`...)
		dst = AppendString(dst, p.ToolUseID)
		dst = append(dst, `,"id":`...)
		dst = AppendString(dst, p.ToolUseID)
	} else {
		dst = append(dst, `,"text":`...)
		dst = AppendString(dst, p.Text)
	}
	return append(dst, "}}"...)
}

const partialHead = `{"type":"partial_message","partial":{"type":`

// The bytes before and after the text of a partial message with text.
var (
	partialTextHead = []byte(partialHead + `"text","text":"`)
	partialTail     = []byte(`"}}`)
)

// MarshalJSON encodes the partial message as [AppendEvent] does.
func (p *PartialMessage) MarshalJSON() ([]byte, error) { return appendPartial(nil, &p.Partial), nil }

// MarshalJSON encodes all fields of the type of the block, and only those.
func (b Block) MarshalJSON() ([]byte, error) {
	dst := append([]byte(`{"type":`), AppendString(nil, b.Type)...)
	switch b.Type {
	case PartialThinking:
		dst = AppendString(append(dst, `,"thinking":`...), b.Thinking)
	case PartialToolUse:
		dst = AppendString(append(dst, `,"id":`...), b.ID)
		dst = AppendString(append(dst, `,"name":`...), b.Name)
		dst = append(dst, `,"input":`...)
		if len(b.Input) == 0 {
			dst = append(dst, "{}"...)
		}
		dst = append(dst, b.Input...)
	default:
		dst = AppendString(append(dst, `,"text":`...), b.Text)
	}
	return append(dst, '}'), nil
}

const hex = "0123456789abcdef"

// AppendString appends s as a JSON string. Invalid UTF-8 is replaced by U+FFFD, as in
// encoding/json.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r != utf8.RuneError || size != 1 {
				i += size
				continue
			}
		}
		dst = append(dst, s[from:i]...)
		switch {
		case c >= utf8.RuneSelf:
			dst = append(dst, "\uFFFD"...)
		case c == '"', c == '\\':
			dst = append(dst, '\\', c)
		case c == '\n':
			dst = append(dst, `\n`...)
		case c == '\r':
			dst = append(dst, `\r`...)
		case c == '\t':
			dst = append(dst, `\t`...)
		default:
			dst = append(dst, `\u00`...)
			dst = append(dst, hex[c>>4], hex[c&15])
		}
		i++
		from = i
	}
	dst = append(dst, s[from:]...)
	return append(dst, '"')
}
