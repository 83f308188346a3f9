package shell

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Read reads a text. Its time is linear in the length of the text. The error is an [Error].
func Read(text string) (Script, error) {
	switch {
	case len(text) > maxText:
		return nil, errTooLong
	case !utf8.ValidString(text) || strings.ContainsFunc(text, isControl):
		return nil, errControl
	}
	r := reader{text: text}
	if err := r.list(); err != nil {
		return nil, err
	}
	if written := r.script.String(); len(written) > maxWritten {
		return nil, errTooLong
	}
	return r.script, nil
}

func isControl(c rune) bool { return c != '\n' && c != '\t' && unicode.IsControl(c) }

// reader reads a text from left to right. No character is read twice.
type reader struct {
	text    string // what remains
	script  Script
	command Command // the current command
	after   string  // the operator before the next command
}

// list reads commands and operators up to the end of the text.
func (r *reader) list() *Error {
	for {
		r.skipSpace()
		if r.text == "" {
			if err := r.endCommand(""); err != nil {
				return err
			}
			if r.after == "" || r.after == ";" {
				return nil
			}
			return errIncomplete
		}
		if err := r.element(); err != nil {
			return err
		}
	}
}

// element reads an operator, a redirection or a word.
func (r *reader) element() *Error {
	switch {
	case r.take("\n"):
		if len(r.command.Words)+len(r.command.Redirects) == 0 {
			return nil // an empty line, also after an operator
		}
		return r.endCommand(";")
	case r.take("&&"):
		return r.endCommand("&&")
	case r.take("||"):
		return r.endCommand("||")
	case r.take("|&"):
		return errPipeBoth
	case r.take("|"):
		return r.endCommand("|")
	case r.take(";"):
		return r.endCommand(";")
	case r.take("&>"):
		return r.redirectBoth()
	case r.take("&"):
		return errBackground
	case r.starts("<"):
		return r.redirect("0")
	case r.starts(">"):
		return r.redirect("1")
	case r.starts("("), r.starts(")"):
		return errParenthesis
	}
	w, shape, err := r.word()
	if err != nil {
		return err
	}
	if r.starts("<") || r.starts(">") {
		switch {
		case shape == "0", shape == "1", shape == "2":
			return r.redirect(shape)
		case strings.Trim(shape, "0123456789") == "", strings.HasPrefix(shape, "{") && strings.HasSuffix(shape, "}"):
			return errDescriptor
		}
	}
	if len(r.command.Words) == 0 {
		if err := checkName(w, shape); err != nil {
			return err
		}
	}
	r.command.Words = append(r.command.Words, w)
	return nil
}

// endCommand adds the current command to the script. next is the operator after it.
func (r *reader) endCommand(next string) *Error {
	switch {
	case len(r.command.Words) > 0:
	case len(r.command.Redirects) > 0:
		return errNoCommand
	case next == "":
		return nil
	default:
		return errIncomplete
	}
	r.command.After = r.after
	r.script = append(r.script, r.command)
	r.command, r.after = Command{}, next
	return nil
}

func (r *reader) starts(prefix string) bool { return strings.HasPrefix(r.text, prefix) }

// take removes a prefix of the text. It reports whether the text had the prefix.
func (r *reader) take(prefix string) bool {
	rest, ok := strings.CutPrefix(r.text, prefix)
	r.text = rest
	return ok
}

// skipSpace skips spaces, tabs, line continuations and a comment.
func (r *reader) skipSpace() {
	for r.take(" ") || r.take("\t") || r.take("\\\n") {
	}
	if r.starts("#") {
		if end := strings.IndexByte(r.text, '\n'); end >= 0 {
			r.text = r.text[end:]
		} else {
			r.text = ""
		}
	}
}

// redirectBoth reads the file of &>.
func (r *reader) redirectBoth() *Error {
	if r.starts(">") {
		return errRedirect
	}
	target, _, err := r.target()
	r.command.Redirects = append(r.command.Redirects, Redirect{"1", ">", target}, Redirect{"2", ">&", "1"})
	return err
}

func (r *reader) redirect(descriptor string) *Error {
	switch {
	case r.starts("<<<"):
		return errHereString
	case r.starts("<<"):
		return errHereDocument
	case r.starts("<>"), r.starts("<&"), r.starts(">|"):
		return errRedirect
	}
	operator := ">"
	switch {
	case r.take("<"):
		operator = "<"
	case r.take(">>"):
		operator = ">>"
	case r.take(">&"):
		operator = ">&"
	default:
		r.take(">")
	}
	target, shape, err := r.target()
	if err == nil && operator == ">&" && shape != "1" && shape != "2" {
		err = errRedirect
	}
	r.command.Redirects = append(r.command.Redirects, Redirect{descriptor, operator, target})
	return err
}

// target reads the word after a redirection.
func (r *reader) target() (text, shape string, err *Error) {
	for r.take(" ") || r.take("\t") || r.take("\\\n") {
	}
	switch {
	case r.text != "" && strings.ContainsRune("()", rune(r.text[0])):
		return "", "", errProcess
	case r.text == "" || r.text[0] == '#' || isMeta(r.text[0]):
		return "", "", errTarget
	}
	w, shape, err := r.word()
	if err == nil && (w.IsGlob() || w.Text == "") {
		err = errTarget
	}
	return w.Text, shape, err
}

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

// checkShape rejects a word that bash would expand: a tilde, braces and other sets of characters.
func checkShape(shape string) *Error {
	if strings.HasPrefix(shape, "~") || strings.Contains(shape, "=~") || strings.Contains(shape, ":~") {
		return errTilde
	}
	if _, after, ok := strings.Cut(shape, "{"); ok && strings.Contains(after, "}") && (strings.Contains(after, ",") || strings.Contains(after, "..")) {
		return errBraces
	}
	if open := strings.IndexByte(shape, '['); open >= 0 && strings.IndexByte(shape[open:], ']') > 0 {
		return errSet
	}
	return nil
}
