// Package jsonscan reads one JSON object of a known shape in a tenth of the time of encoding/json,
// and fails on anything unusual.
//
// A [Scanner] accepts a subset of the documents that encoding/json accepts, and reads the same
// values from them: keys are plain lower-case words, so that none of them could match a field in
// another case, and a caller rejects repeated keys. If [Scanner.Done] reports false, the caller
// decodes the same bytes with encoding/json.
//
//	s := jsonscan.Over(data)
//	s.Open('{')
//	for key := s.Key(); key != nil; key = s.Key() {
//		switch string(key) {
//		case "index":
//			index = s.Int()
//		default:
//			s.Skip()
//		}
//	}
//	return index, s.Done()
package jsonscan

import "strconv"

// Scanner is a position in a document. After a failure every call returns a zero value, and Done
// reports false.
type Scanner struct {
	data   []byte
	pos    int
	first  bool // right after a brace: the next key has no comma before it
	failed bool
}

// Over returns a scanner at the start of data, which it does not modify.
func Over(data []byte) Scanner { return Scanner{data: data} }

// Fail makes the scanner fail.
func (s *Scanner) Fail() { s.failed = true }

// Done reports whether no call failed and only white space remains.
func (s *Scanner) Done() bool {
	return !s.failed && s.peek() == 0 && s.pos == len(s.data)
}

// Open reads the given bracket or brace.
func (s *Scanner) Open(c byte) {
	s.take(c)
	s.first = true
}

// Elem reports whether the array has another element, and reads the comma before it. At the end of
// the array it reads the bracket. It returns false after a failure.
func (s *Scanner) Elem() bool {
	switch {
	case s.failed:
		return false
	case s.peek() == ']':
		s.pos++
		s.first = false
		return false
	case !s.first:
		s.take(',')
		if s.peek() == ']' {
			s.failed = true
		}
	}

	s.first = false
	return !s.failed
}

// Key returns the next key of the object and reads its colon. At the end of the object it reads the
// brace and returns nil. It returns nil after a failure.
func (s *Scanner) Key() []byte {
	c := s.peek()
	if c == '}' {
		s.pos++
		s.first = false
		return nil
	}

	if !s.first {
		s.take(',')
		c = s.peek()
	}

	s.first = false
	if c != '"' || s.failed {
		s.failed = true
		return nil
	}

	start := s.pos + 1
	end := start
	for end < len(s.data) && keyByte[s.data[end]] {
		end++
	}

	if end == start || end == len(s.data) || s.data[end] != '"' {
		s.failed = true
		return nil
	}

	s.pos = end + 1
	if s.pos < len(s.data) && s.data[s.pos] == ':' {
		s.pos++
	} else {
		s.take(':')
	}

	if s.failed {
		return nil
	}

	return s.data[start:end]
}

// keyByte is the set of characters of keys.
var keyByte = func() (set [256]bool) {
	for _, c := range "abcdefghijklmnopqrstuvwxyz0123456789_" {
		set[c] = true
	}

	return set
}()

// Text reads a string, which may be a fragment of a longer text, as [Fragment] does.
func (s *Scanner) Text() string {
	body, plain := s.body()
	if plain {
		return string(body)
	}

	text, ok := unquote(body)
	if !ok {
		s.failed = true
	}

	return text
}

// Raw reads a string without escapes and returns its bytes as a slice of the document.
func (s *Scanner) Raw() []byte {
	body, plain := s.body()
	if !plain {
		s.failed = true
		return nil
	}

	return body
}

// body reads a string and returns the bytes between its quotes. It reports whether they
// contain no escapes.
func (s *Scanner) body() ([]byte, bool) {
	if s.peek() != '"' || s.failed {
		s.failed = true
		return nil, false
	}

	start := s.pos + 1
	plain := true
	for i := start; i < len(s.data) && s.data[i] >= ' '; i++ {
		switch s.data[i] {
		case '"':
			s.pos = i + 1
			return s.data[start:i], plain
		case '\\':
			plain = false
			i++ // a quote after a backslash is not the end; unquote checks the escape
		}
	}

	s.failed = true
	return nil, false
}

// Null reports whether the next value is null, and reads it.
func (s *Scanner) Null() bool {
	if s.peek() == 'n' {
		s.literal("null")
		return !s.failed
	}

	return false
}

// Int reads an integer from 0 to 999,999,999.
func (s *Scanner) Int() int {
	s.peek()
	digits := s.number()
	if len(digits) > 9 {
		s.failed = true
	}

	n, err := strconv.Atoi(string(digits))
	if s.failed || err != nil {
		s.failed = true
		return 0
	}

	return n
}

// maxDepth bounds the nesting of a skipped value.
const maxDepth = 8

// Skip reads a value without its content: null, true, false, a whole number, a string without
// escapes, or an object or array of these.
func (s *Scanner) Skip() { s.skip(maxDepth) }

func (s *Scanner) skip(depth int) {
	switch s.peek() {
	case '"':
		s.Raw()
	case 'n':
		s.literal("null")
	case 't':
		s.literal("true")
	case 'f':
		s.literal("false")
	case '{':
		s.Open('{')
		s.failed = s.failed || depth == 1
		for key := s.Key(); key != nil; key = s.Key() {
			s.skip(depth - 1)
		}
	case '[':
		s.Open('[')
		s.failed = s.failed || depth == 1
		for s.Elem() {
			s.skip(depth - 1)
		}
	default:
		s.number()
	}
}

// number reads the digits of a whole number.
func (s *Scanner) number() []byte {
	start := s.pos
	for s.pos < len(s.data) && s.data[s.pos]-'0' <= 9 {
		s.pos++
	}

	digits := s.pos - start
	if digits == 0 || digits > 1 && s.data[start] == '0' || s.pos < len(s.data) && numeric(s.data[s.pos]) {
		s.failed = true
	}

	return s.data[start:s.pos]
}

// numeric reports whether c may follow a digit in a number.
func numeric(c byte) bool {
	return c == '.' || c == 'e' || c == 'E' || c == '+' || c == '-' || c-'0' <= 9
}

func (s *Scanner) literal(w string) {
	if end := s.pos + len(w); end <= len(s.data) && string(s.data[s.pos:end]) == w {
		s.pos = end
		return
	}

	s.failed = true
}

func (s *Scanner) take(c byte) {
	if s.peek() != c || s.failed {
		s.failed = true
		return
	}

	s.pos++
}

// peek skips white space and returns the next byte, 0 at the end.
func (s *Scanner) peek() byte {
	for s.pos < len(s.data) {
		c := s.data[s.pos]
		if c > ' ' {
			return c
		}

		if c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			s.failed = true
			return 0
		}

		s.pos++
	}

	return 0
}
