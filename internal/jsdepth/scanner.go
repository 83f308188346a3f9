package jsdepth

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// scanner reads tokens. A template with substitutions is read in parts: up to a ${, which opens a
// level, and then from the } that closes it.
type scanner struct {
	source string
	at     int // the next byte
	start  int // of the token
	kind   Kind
	reason string // why the file is rejected

	newline  bool   // before the token
	property bool   // the token is a word after a dot
	previous string // the token before

	// Set by the checker for the next token.
	value    bool   // the token before is the end of a value
	header   bool   // it is the end of the parentheses of if, for, while or with
	modifier bool   // it is a word that can be a keyword
	before   string // it is this keyword
}

// next reads a token. It returns false at the end of the file.
func (s *scanner) next() bool {
	if s.at > len(s.source) { // a backslash was last
		s.at = len(s.source)
	}
	s.previous = s.source[s.start:s.at]
	s.property = s.previous == "." || s.previous == "?."
	s.space()
	s.start = s.at
	if s.at >= len(s.source) {
		return false
	}
	switch b := s.source[s.at]; {
	case b == '"' || b == '\'':
		s.text(b)
	case b == '`':
		s.at++
		s.template()
	case b == '/':
		s.slash()
	case b == '(' || b == '[' || b == '{':
		s.at++
		s.kind = Open
	case b == ')' || b == ']' || b == '}':
		s.at++
		s.kind = Close
	case isWord(b):
		s.word()
	default:
		s.punctuation()
	}
	return true
}

// space skips white space and comments.
func (s *scanner) space() {
	s.newline = s.at == 0
	for s.at < len(s.source) {
		rest := s.source[s.at:]
		r, size := utf8.DecodeRuneInString(rest)
		switch {
		case isNewline(r):
			s.newline = true
		case unicode.IsSpace(r) && r != 0x85 || r == 0xFEFF:
		case strings.HasPrefix(rest, "//"), s.at == 0 && strings.HasPrefix(rest, "#!"):
			size = strings.IndexFunc(rest, isNewline)
			if size < 0 {
				size = len(rest)
			}
		case strings.HasPrefix(rest, "/*"):
			end := strings.Index(rest[2:], "*/")
			if end < 0 {
				s.at = len(s.source)
				return
			}
			size = end + 4
			s.newline = s.newline || strings.ContainsFunc(rest[:size], isNewline)
		default:
			return
		}
		s.at += size
	}
}

func isNewline(r rune) bool { return r == '\n' || r == '\r' || r == 0x2028 || r == 0x2029 }

// isWord reports whether a byte is part of an identifier or a number.
func isWord(b byte) bool {
	return b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b == '_' || b == '$' || b == '#' || b == '\\' || b >= utf8.RuneSelf
}

func (s *scanner) word() {
	s.kind = Word
	number := s.source[s.at] >= '0' && s.source[s.at] <= '9'
	for s.at < len(s.source) && (isWord(s.source[s.at]) || number && s.source[s.at] == '.') {
		r, size := utf8.DecodeRuneInString(s.source[s.at:])
		if r >= utf8.RuneSelf && (unicode.IsSpace(r) && r != 0x85 || r == 0xFEFF) {
			break
		}
		if strings.HasPrefix(s.source[s.at:], `\u{`) {
			size = 3 + max(0, strings.IndexByte(s.source[s.at+3:], '}')+1)
		}
		s.at += size
	}
	if number {
		s.kind = Literal
	}
}

func (s *scanner) text(quote byte) {
	s.kind = Literal
	for s.at++; s.at < len(s.source); s.at++ {
		switch s.source[s.at] {
		case '\\':
			s.at++
			if strings.HasPrefix(s.source[s.at:], "\r\n") {
				s.at++
			}
		case quote:
			s.at++
			return
		case '\n', '\r': // a syntax error
			return
		}
	}
	s.at = len(s.source)
}

// template reads a template up to its end or to a substitution.
func (s *scanner) template() {
	s.kind = Literal
	for ; s.at < len(s.source); s.at++ {
		switch {
		case s.source[s.at] == '\\':
			s.at++
		case s.source[s.at] == '`':
			s.at++
			return
		case strings.HasPrefix(s.source[s.at:], "${"):
			s.kind = Open
			s.start = s.at
			s.at += 2
			return
		}
	}
	s.at = len(s.source)
}

// expressions are the keywords after which a slash begins a regular expression.
var expressions = words("return typeof case throw default else do in instanceof")

// slash reads a division or a regular expression.
func (s *scanner) slash() {
	switch {
	case strings.HasSuffix(s.previous, "}"):
		s.reason = "a slash after a brace is ambiguous: write a semicolon or parentheses"
	case s.previous == ">":
		s.reason = "a slash after > is ambiguous: write parentheses"
	case s.before != "" && !expressions[s.before]:
		s.reason = "a slash after the word " + s.before + " is ambiguous: write parentheses"
	case s.value && !s.header:
		s.punctuation()
		return
	}
	s.kind = Literal
	class := false
	for s.at++; s.at < len(s.source); s.at++ {
		switch b := s.source[s.at]; {
		case b == '\\':
			s.at++
		case b == '[':
			class = true
		case b == ']':
			class = false
		case b == '/' && !class:
			for s.at++; s.at < len(s.source) && isWord(s.source[s.at]); s.at++ {
			}
			return
		case b == '\n' || b == '\r': // a syntax error
			return
		}
	}
	s.at = len(s.source)
}

// longOperators are the operators of more than one byte, longer ones first. A >> can close two
// lists of types.
var longOperators = []string{"===", "!==", "**=", "<<=", ">>=", "&&=", "||=", "??=", "...", "=>", "==", "!=", "<=", ">=",
	"&&", "||", "??", "?.", "**", "<<", "++", "--", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^="}

func (s *scanner) punctuation() {
	s.kind = Punctuator
	rest := s.source[s.at:]
	if strings.HasPrefix(rest, "<!--") || s.newline && strings.HasPrefix(rest, "-->") {
		s.reason = "HTML comments are not supported"
	}
	size := 1
	for _, operator := range longOperators {
		if strings.HasPrefix(rest, operator) {
			size = len(operator)
			break
		}
	}
	s.at += size
}
