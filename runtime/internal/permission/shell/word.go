package shell

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// isMeta reports whether a character ends an unquoted word.
func isMeta(c byte) bool { return strings.IndexByte(" \t\n;&|<>()", c) >= 0 }

const quoted = 0 // a quote or a quoted character, in the shape of a word

// wordReader joins the parts of a word.
type wordReader struct {
	text  []byte
	shape []byte // the unquoted characters, and others as quoted or Hole
	globs []string
}

// word reads a word, which is not empty. The shape has the unquoted characters.
func (r *reader) word() (Word, string, *Error) {
	var w wordReader
	for r.text != "" && !isMeta(r.text[0]) {
		var err *Error
		switch c := r.text[0]; c {
		case '\'':
			err = r.singleQuoted(&w)
		case '"':
			err = r.doubleQuoted(&w)
		case '\\':
			err = r.escape(&w)
		case '`':
			err = errSubstitution
		case '$':
			err = r.dollar(&w, true)
		case '*', '?':
			w.glob(r.text[:1])
			r.text = r.text[1:]
		case '[':
			r.bracket(&w)
		default:
			err = r.literal(&w)
		}

		if err != nil {
			return Word{}, "", err
		}
	}

	shape := string(w.shape)
	return Word{Text: string(w.text), globs: w.globs}, shape, checkShape(shape)
}

func (w *wordReader) glob(glob string) {
	w.text = append(w.text, Hole...)
	w.shape = append(w.shape, Hole...)
	w.globs = append(w.globs, glob)
}

func (w *wordReader) quote(text string) {
	w.text = append(w.text, text...)
	w.shape = append(w.shape, quoted)
}

// literal reads an unquoted character.
func (r *reader) literal(w *wordReader) *Error {
	c, size := utf8.DecodeRuneInString(r.text)
	if c > unicode.MaxASCII && unicode.IsSpace(c) {
		return errSpace
	}

	w.text = append(w.text, r.text[:size]...)
	w.shape = append(w.shape, r.text[:size]...)
	r.text = r.text[size:]
	return nil
}

func (r *reader) singleQuoted(w *wordReader) *Error {
	text, rest, closed := strings.Cut(r.text[1:], "'")
	if !closed {
		return errQuote
	}

	w.quote(text)
	r.text = rest
	return nil
}

func (r *reader) doubleQuoted(w *wordReader) *Error {
	w.quote("")
	r.text = r.text[1:]
	for r.text != "" {
		end := strings.IndexAny(r.text, "\"\\$`")
		if end < 0 {
			return errQuote
		}

		w.text = append(w.text, r.text[:end]...)
		r.text = r.text[end:]
		switch r.text[0] {
		case '"':
			r.text = r.text[1:]
			return nil
		case '`':
			return errSubstitution
		case '$':
			if err := r.dollar(w, false); err != nil {
				return err
			}
		default:
			if r.take("\\\n") {
				continue
			}

			if len(r.text) > 1 && strings.IndexByte("$`\"\\", r.text[1]) >= 0 {
				r.text = r.text[1:]
			}

			w.text = append(w.text, r.text[0])
			r.text = r.text[1:]
		}
	}

	return errQuote
}

// escape reads a backslash outside quotes.
func (r *reader) escape(w *wordReader) *Error {
	if r.take("\\\n") {
		return nil
	}

	_, size := utf8.DecodeRuneInString(r.text[1:])
	if size == 0 {
		return errEnd
	}

	w.quote(r.text[1 : 1+size])
	r.text = r.text[1+size:]
	return nil
}

// dollar reads a "$", which is literal if it begins no expansion.
func (r *reader) dollar(w *wordReader, unquoted bool) *Error {
	next := byte(' ')
	if len(r.text) > 1 {
		next = r.text[1]
	}

	switch {
	case next == '(':
		return errSubstitution
	case unquoted && (next == '\'' || next == '"'):
		return errDollarQuote
	case strings.IndexByte("{[?#@*!-$_\\", next) >= 0, '0' <= next && next <= '9', 'a' <= next|0x20 && next|0x20 <= 'z':
		return errVariable
	}

	w.quote("$")
	r.text = r.text[1:]
	return nil
}

// bracket reads a "[", which begins a set of characters if a simple set follows.
func (r *reader) bracket(w *wordReader) {
	glob := []byte("[")
	rest := r.text[1:]
	if rest != "" && (rest[0] == '!' || rest[0] == '^') {
		glob, rest = append(glob, '!'), rest[1:]
	}

	empty := len(glob)
	for len(rest) > 0 && isPlain(rest[0]) {
		glob = append(glob, '\'', rest[0], '\'')
		if rest = rest[1:]; len(rest) > 1 && rest[0] == '-' && isPlain(rest[1]) {
			glob = append(glob, '-', '\'', rest[1], '\'')
			rest = rest[2:]
		}
	}

	if len(glob) == empty || !strings.HasPrefix(rest, "]") {
		w.text, w.shape = append(w.text, '['), append(w.shape, '[')
		r.text = r.text[1:]
		return
	}

	w.glob(string(glob) + "]")
	r.text = rest[1:]
}

func isPlain(c byte) bool {
	return 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || c == '_' || c == '.'
}
