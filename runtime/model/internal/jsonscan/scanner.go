// Package jsonscan walks over one JSON object of a shape that is known beforehand, at a tenth of
// what encoding/json takes, and gives up on anything out of the ordinary.
//
// A [Scanner] accepts less than encoding/json does, never more, and where it accepts it reads the
// same values: keys are plain lower-case words, so that none of them could match a field in
// another case, and a caller refuses keys that come twice. Whoever is told no by [Scanner.Done]
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

// Scanner stands at one place of a document. Once something was not as expected it has failed
// for good: every further call returns a zero value, and Done is false.
type Scanner struct {
	data   []byte
	pos    int
	first  bool // right after a brace: no comma stands before the next key
	failed bool
}

// Over returns a scanner at the start of data, which is not changed.
func Over(data []byte) Scanner { return Scanner{data: data} }

// Seen is the set of fields that an object has had so far, one bit each.
type Seen uint

// Once fails where the field of that bit has come before: encoding/json puts such two together.
func (f *Seen) Once(s *Scanner, bit uint) {
	if *f&(1<<bit) != 0 {
		s.failed = true
	}
	*f |= 1 << bit
}

// Fail gives up.
func (s *Scanner) Fail() { s.failed = true }

// Done reports whether everything was as expected and nothing but white space is left.
func (s *Scanner) Done() bool {
	return !s.failed && s.peek() == 0 && s.pos == len(s.data)
}

// Open takes the given bracket or brace.
func (s *Scanner) Open(c byte) {
	s.take(c)
	s.first = true
}

// Elem reports whether another element of the array stands here, and takes the comma before it.
// At the end of the array it takes the bracket and returns false, as it does after a failure.
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

// Key returns the next key of the object and takes its colon. At the end of the object it takes
// the brace and returns nil, as it does after a failure.
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

// keyByte tells the characters of keys.
var keyByte = func() (set [256]bool) {
	for _, c := range "abcdefghijklmnopqrstuvwxyz0123456789_" {
		set[c] = true
	}
	return set
}()

// Null takes a null if one stands here.
func (s *Scanner) Null() bool {
	if s.peek() == 'n' {
		s.literal("null")
		return !s.failed
	}
	return false
}

// Int takes an integer from 0 to 999,999,999.
func (s *Scanner) Int() int {
	s.peek()
	start, n := s.pos, 0
	for s.pos < len(s.data) && s.data[s.pos]-'0' <= 9 {
		n = n*10 + int(s.data[s.pos]-'0')
		if s.pos++; s.pos-start > 9 {
			break
		}
	}
	digits := s.pos - start
	if digits == 0 || digits > 9 || digits > 1 && s.data[start] == '0' || s.pos < len(s.data) && numeric(s.data[s.pos]) {
		s.failed = true
		return 0
	}
	return n
}

// maxDepth bounds what Skip goes into.
const maxDepth = 8

// Skip takes a value that nobody wants, of null, true, false, whole numbers, strings without
// escapes, and objects and arrays of these.
func (s *Scanner) Skip() { s.skip(maxDepth) }

// Value is Skip, and returns the value as it stands, a part of the document.
func (s *Scanner) Value() []byte {
	s.peek()
	start := s.pos
	s.Skip()
	if s.failed {
		return nil
	}
	return s.data[start:s.pos]
}

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
		s.skipObject(depth - 1)
	case '[':
		s.skipArray(depth - 1)
	default:
		s.number()
	}
}

func (s *Scanner) skipObject(depth int) {
	s.Open('{')
	if depth == 0 {
		s.failed = true
	}
	for key := s.Key(); key != nil; key = s.Key() {
		s.skip(depth)
	}
}

func (s *Scanner) skipArray(depth int) {
	s.Open('[')
	if depth == 0 {
		s.failed = true
	}
	for s.Elem() {
		s.skip(depth)
	}
}

func (s *Scanner) number() {
	start := s.pos
	for s.pos < len(s.data) && s.data[s.pos]-'0' <= 9 {
		s.pos++
	}
	digits := s.pos - start
	if digits == 0 || digits > 1 && s.data[start] == '0' || s.pos < len(s.data) && numeric(s.data[s.pos]) {
		s.failed = true
	}
}

// numeric tells what may stand in a number beside digits.
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

// peek passes over white space and returns the byte that follows, 0 at the end.
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
