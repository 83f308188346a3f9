package wire

import (
	"bytes"
	"unicode/utf8"

	"github.com/seed93082962/agenthost/internal/jsonlimit"
)

// appendPartial appends a partial message. There is one for each token.
func appendPartial(dst []byte, p *Partial) []byte {
	dst = append(dst, `{"type":"partial_message","partial":{"type":`...)
	dst = jsonlimit.AppendString(dst, p.Type)
	if p.Type == PartialToolUse {
		dst = append(dst, `,"tool_name":`...)
		dst = jsonlimit.AppendString(dst, p.ToolName)
		dst = append(dst, `,"tool_use_id":`...)
		dst = jsonlimit.AppendString(dst, p.ToolUseID)
		dst = append(dst, `,"id":`...)
		dst = jsonlimit.AppendString(dst, p.ToolUseID)
	} else {
		dst = append(dst, `,"text":`...)
		dst = jsonlimit.AppendString(dst, p.Text)
	}

	return append(dst, "}}"...)
}

// MarshalJSON encodes the partial message as [Event.Append] does.
func (p *PartialMessage) MarshalJSON() ([]byte, error) { return appendPartial(nil, &p.Partial), nil }

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
	if err := jsonlimit.Unmarshal(data, &in); err != nil {
		return err
	}

	p.Partial = Partial{Type: in.Partial.Type, Text: in.Partial.Text, ToolName: in.Partial.ToolName, ToolUseID: in.Partial.ToolUseID}
	if p.Partial.ToolUseID == "" {
		p.Partial.ToolUseID = in.Partial.ID
	}

	return nil
}

// The bytes before and after the text of a partial message with text, as the encoder writes them.
var textHead, textTail = aroundText()

func aroundText() ([]byte, []byte) {
	encoded := appendPartial(nil, &Partial{Type: PartialText})
	quotes := bytes.LastIndex(encoded, []byte(`""`))
	return encoded[:quotes+1], encoded[quotes+1:]
}

// AppendText appends the text of the partial message at the start of data to dst, and returns it
// with the length of the message in data. The length is 0 if [Event.Append] does not write a
// partial message with text in exactly these bytes. Most tokens are such messages.
func AppendText(dst, data []byte) ([]byte, int) {
	quoted, ok := bytes.CutPrefix(data, textHead)
	if !ok {
		return dst, 0
	}

	text, n := appendUnquoted(dst, quoted)
	if n < 0 || !bytes.HasPrefix(quoted[n:], textTail) {
		return dst, 0
	}

	return text, len(textHead) + n + len(textTail)
}

// AppendPartialText appends the text of a partial message with text to dst.
func AppendPartialText(dst, data []byte) []byte {
	if text, n := AppendText(dst, data); n == len(data) {
		return text
	}

	var p PartialMessage
	if jsonlimit.Unmarshal(data, &p) != nil || p.Partial.Type != PartialText {
		return dst
	}

	return append(dst, p.Partial.Text...)
}

// appendUnquoted is the inverse of [jsonlimit.AppendString]: it appends the text of a string to
// dst. quoted begins after the first quote. It returns the number of bytes up to the last quote, or
// -1 if that function writes the text in another form.
func appendUnquoted(dst, quoted []byte) ([]byte, int) {
	text := dst
	from := 0 // of the bytes that are appended together
	for i := 0; i < len(quoted); {
		c := quoted[i]
		if c >= 0x20 && c != '"' && c != '\\' {
			i++
			continue
		}

		text = append(text, quoted[from:i]...)
		if c == '"' && utf8.Valid(text[len(dst):]) {
			return text, i
		}

		c, size := unescape(quoted[i:])
		if size == 0 {
			break
		}

		text = append(text, c)
		i += size
		from = i
	}

	return dst, -1
}

const hex = "0123456789abcdef"

// unescape returns the character of the escape at the start of s, and the size of the escape, or 0
// if [jsonlimit.AppendString] does not write it.
func unescape(s []byte) (byte, int) {
	if len(s) < 2 || s[0] != '\\' {
		return 0, 0
	}

	switch s[1] {
	case '"', '\\':
		return s[1], 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	}

	for c := range byte(0x20) {
		if c != '\n' && c != '\r' && c != '\t' && bytes.HasPrefix(s, []byte{'\\', 'u', '0', '0', hex[c>>4], hex[c&15]}) {
			return c, 6
		}
	}

	return 0, 0
}
