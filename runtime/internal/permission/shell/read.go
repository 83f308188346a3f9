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
