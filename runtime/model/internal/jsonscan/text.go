package jsonscan

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Raw reads a string without escapes and returns its bytes as a slice of the document.
func (s *Scanner) Raw() []byte {
	body, plain := s.body()
	if !plain {
		s.failed = true
		return nil
	}
	return body
}

// String reads a string. Invalid UTF-8 and lone surrogates become U+FFFD, as in encoding/json.
func (s *Scanner) String() string {
	body, plain := s.body()
	if plain && (ascii(body) || utf8.Valid(body)) {
		return string(body)
	}
	if s.failed {
		return ""
	}
	text, ok := unquote(body)
	if !ok {
		s.failed = true
	}
	return text
}

// Whole is like String, but for text that may be a fragment. It fails if the text contains U+FFFD,
// which may replace half a character. [Unquote] keeps such halves.
func (s *Scanner) Whole() string {
	text := s.String()
	if strings.Contains(text, "\uFFFD") {
		s.failed = true
		return ""
	}
	return text
}

// body reads a string and returns the bytes between its quotes. plain reports whether they contain
// no escapes.
func (s *Scanner) body() (body []byte, plain bool) {
	if s.peek() != '"' || s.failed {
		s.failed = true
		return nil, false
	}
	start := s.pos + 1
	plain = true
	for i := start; ; {
		i += ordinary(s.data[i:])
		if i == len(s.data) || s.data[i] < ' ' {
			s.failed = true
			return nil, false
		}
		if s.data[i] == '"' {
			s.pos = i + 1
			return s.data[start:i], plain
		}
		plain = false
		if i += 2; i > len(s.data) { // a quote after a backslash is not the end; unquote checks the escape
			s.failed = true
			return nil, false
		}
	}
}

// ordinary returns the number of bytes before the first quote, backslash or control character. It
// reads eight bytes at a time: a byte of hit is 0x80 if the byte of word is one of them. Borrows
// may also set bytes above the first one, never below.
func ordinary(b []byte) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	i := 0
	for ; i+8 <= len(b); i += 8 {
		word := binary.LittleEndian.Uint64(b[i:])
		quote := word ^ ones*'"'
		slash := word ^ ones*'\\'
		hit := ((word-ones*' ')&^word | (quote-ones)&^quote | (slash-ones)&^slash) & highs
		if hit != 0 {
			return i + bits.TrailingZeros64(hit)/8
		}
	}
	for ; i < len(b); i++ {
		if c := b[i]; c < ' ' || c == '"' || c == '\\' {
			break
		}
	}
	return i
}

func ascii(b []byte) bool {
	for _, c := range b {
		if c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// unquote resolves the escapes of a string's body.
func unquote(body []byte) (string, bool) {
	var stack [512]byte // most increments are short: only the string is allocated
	out := stack[:0]
	for len(body) > 0 {
		i := bytes.IndexByte(body, '\\')
		if i < 0 {
			i = len(body)
		}
		out = appendValid(out, body[:i])
		if i == len(body) {
			break
		}
		if body = body[i+1:]; len(body) == 0 {
			return "", false
		}
		c := body[0]
		body = body[1:]
		switch c {
		case '"', '\\', '/':
		case 'b':
			c = '\b'
		case 'f':
			c = '\f'
		case 'n':
			c = '\n'
		case 'r':
			c = '\r'
		case 't':
			c = '\t'
		case 'u':
			r, ok := hex4(body)
			if !ok {
				return "", false
			}
			body = body[4:]
			if utf16.IsSurrogate(r) {
				low := rune(-1)
				if len(body) >= 6 && body[0] == '\\' && body[1] == 'u' {
					low, _ = hex4(body[2:])
				}
				// The other half is read only if the two make a pair.
				if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
					body = body[6:]
				}
			}
			out = utf8.AppendRune(out, r)
			continue
		default:
			return "", false
		}
		out = append(out, c)
	}
	return string(out), true
}

func appendValid(out, b []byte) []byte {
	if ascii(b) || utf8.Valid(b) {
		return append(out, b...)
	}
	for len(b) > 0 {
		r, size := utf8.DecodeRune(b)
		out = utf8.AppendRune(out, r)
		b = b[size:]
	}
	return out
}

func hex4(b []byte) (rune, bool) {
	if len(b) < 4 {
		return -1, false
	}
	var r rune
	for _, c := range b[:4] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return -1, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}
