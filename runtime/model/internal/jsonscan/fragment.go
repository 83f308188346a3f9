package jsonscan

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// Fragment is a string field that may be a fragment of a longer text. Bytes that are not UTF-8 are
// kept, and a surrogate without its other half is encoded in three bytes as if it were a character,
// so that the fragments of one text can be joined.
type Fragment string

// UnmarshalJSON implements json.Unmarshaler. It returns a *json.UnmarshalTypeError for a value that
// is neither a string nor null.
func (f *Fragment) UnmarshalJSON(raw []byte) error {
	if string(raw) == "null" {
		return nil
	}

	if len(raw) == 0 || raw[0] != '"' {
		return &json.UnmarshalTypeError{Value: "value", Type: reflect.TypeFor[string]()}
	}

	text, _ := unquote(raw[1 : len(raw)-1]) // encoding/json has checked the escapes
	*f = Fragment(text)
	return nil
}

// unquote returns the text of the body of a JSON string. It reports false for an invalid escape.
func unquote(body []byte) (string, bool) {
	out := make([]byte, 0, len(body))
	for len(body) > 0 {
		i := bytes.IndexByte(body, '\\')
		if i < 0 {
			out = append(out, body...)
			break
		}

		out = append(out, body[:i]...)
		if body = body[i+1:]; len(body) == 0 {
			return "", false
		}

		c := body[0]
		body = body[1:]
		if c != 'u' {
			if c = unescape(c); c == 0 {
				return "", false
			}

			out = append(out, c)
			continue
		}

		r, ok := hex4(body)
		if !ok {
			return "", false
		}

		body = body[4:]
		if utf16.IsSurrogate(r) && bytes.HasPrefix(body, []byte(`\u`)) {
			low, _ := hex4(body[2:])
			if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
				r = pair
				body = body[6:]
			}
		}

		out = appendRune(out, r)
	}

	return string(out), true
}

// hex4 decodes four hexadecimal digits at the start of b.
func hex4(b []byte) (rune, bool) {
	if len(b) < 4 {
		return 0, false
	}

	n, err := strconv.ParseUint(string(b[:4]), 16, 16)
	return rune(n), err == nil
}

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
		return append(out, 0xE0|byte(r>>12), 0x80|byte(r>>6)&0x3F, 0x80|byte(r)&0x3F)
	}

	return append(out, string(r)...)
}

// Count is a number of tokens or an index. Some servers send 10.0.
type Count int64

// maxCount is the largest Count. A larger number, which may be damaged, is decoded as it: the sum
// of some counts does not overflow.
const maxCount = 1 << 40

// UnmarshalJSON implements json.Unmarshaler. A value that is not a non-negative number is decoded
// as 0, so that it does not fail a run. A fraction is rounded up.
func (c *Count) UnmarshalJSON(raw []byte) error {
	*c = 0
	if i, err := strconv.ParseInt(string(raw), 10, 64); err == nil { // almost always
		*c = Count(min(max(i, 0), maxCount))
		return nil
	}

	var n json.Number
	_ = json.Unmarshal(raw, &n) // "" for another kind
	if i, err := n.Int64(); err == nil {
		*c = Count(min(max(i, 0), maxCount))
	} else if f, _ := n.Float64(); f > 0 { // infinite if it is out of range
		*c = Count(min(math.Ceil(f), maxCount))
	}

	return nil
}
