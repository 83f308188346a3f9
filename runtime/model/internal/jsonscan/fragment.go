package jsonscan

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strconv"
	"unicode/utf16"
)

var errNotString = errors.New("not a JSON string")

// Unquote returns the text of a JSON string that may be a fragment of a longer text. Bytes that are
// not UTF-8 are kept, and a surrogate without its other half is encoded in three bytes as if it
// were a character, so that the fragments of one text can be joined.
func Unquote(raw []byte) (string, error) {
	if len(raw) < 2 || raw[0] != '"' || raw[len(raw)-1] != '"' {
		return "", errNotString
	}
	body := raw[1 : len(raw)-1]
	out := make([]byte, 0, len(body))
	for len(body) > 0 {
		c := body[0]
		body = body[1:]
		if c != '\\' {
			out = append(out, c)
			continue
		}
		if len(body) == 0 {
			return "", errNotString
		}
		c = body[0]
		body = body[1:]
		if c != 'u' {
			if c = unescape(c); c == 0 {
				return "", errNotString
			}
			out = append(out, c)
			continue
		}
		r, ok := hex4(body)
		if !ok {
			return "", errNotString
		}
		body = body[4:]
		if utf16.IsSurrogate(r) && len(body) >= 6 && body[0] == '\\' && body[1] == 'u' {
			if low, ok := hex4(body[2:]); ok {
				if pair := utf16.DecodeRune(r, low); pair != replacement {
					out = appendRune(out, pair)
					body = body[6:]
					continue
				}
			}
		}
		out = appendRune(out, r)
	}
	return string(out), nil
}

const replacement = '\uFFFD'

// unescape returns the byte of a one-letter escape, 0 for an unknown one.
func unescape(c byte) byte {
	switch c {
	case '"', '\\', '/':
		return c
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return 0
}

// appendRune is like utf8.AppendRune, but also encodes surrogates.
func appendRune(out []byte, r rune) []byte {
	if utf16.IsSurrogate(r) {
		return append(out, 0xE0|byte(r>>12), 0x80|byte(r>>6)&0x3F, 0x80|byte(r)&0x3F) //nolint:gosec // 16 bits
	}
	return append(out, string(r)...)
}

// Fragment is a string field that may be a fragment of a longer text: see [Unquote].
type Fragment string

// UnmarshalJSON implements json.Unmarshaler. It returns a *json.UnmarshalTypeError for a value that
// is neither a string nor null.
func (f *Fragment) UnmarshalJSON(raw []byte) error {
	if string(raw) == "null" {
		return nil
	}
	text, err := Unquote(raw)
	if err != nil {
		return &json.UnmarshalTypeError{Value: "value", Type: reflect.TypeFor[string]()}
	}
	*f = Fragment(text)
	return nil
}

// Count is a number of tokens. Some servers send 10.0.
type Count int64

// UnmarshalJSON implements json.Unmarshaler. A value that is not a non-negative number is decoded
// as 0, so that it does not fail a run.
func (c *Count) UnmarshalJSON(raw []byte) error {
	*c = Count(count(raw))
	return nil
}

// count returns a non-negative JSON number as an integer, or 0 for any other value.
func count(raw []byte) int64 {
	var n json.Number
	if json.Unmarshal(raw, &n) != nil {
		return 0
	}
	if i, err := n.Int64(); err == nil {
		return max(i, 0)
	}
	f, err := strconv.ParseFloat(n.String(), 64)
	if err != nil || !(f > 0) || f > math.MaxInt32 {
		return 0
	}
	return int64(f)
}
