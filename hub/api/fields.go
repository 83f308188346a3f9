package api

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Fields are faults by the name of the field, as the client wrote it: the error is 400 validation_failed with them in
// data.fields. A handler collects them all before it answers:
//
//	faults := api.Fields{}
//	name := faults.Line("name", in.Name, 1, 64)
//	note := faults.Text("note", in.Note, 0, 2000)
//	if err := faults.Err(); err != nil {
//		return err
//	}
type Fields map[string]string

func (f Fields) Error() string {
	var text strings.Builder
	text.WriteString(string(ValidationFailed))
	for _, name := range slices.Sorted(maps.Keys(f)) {
		fmt.Fprintf(&text, ": %s %s", name, f[name])
	}
	return text.String()
}

// Is makes errors.Is(err, api.ValidationFailed) hold.
func (f Fields) Is(target error) bool { return target == ValidationFailed }

// Err is nil where there are no faults.
func (f Fields) Err() error {
	if len(f) == 0 {
		return nil
	}
	return f
}

// Add notes a fault, worded to follow the field's name: "must be ...". The first fault of a field stays.
func (f Fields) Add(field, fault string) {
	if _, ok := f[field]; !ok {
		f[field] = fault
	}
}

// Line checks a text of one line, such as a name, and returns it without the white space around it. It has from least to
// most characters, no control characters, nothing that turns the direction of writing and nothing that cannot be seen, but
// for joiners within words and emoji and what makes a variant of a sign. Where it is not empty, there is something to be seen.
func (f Fields) Line(field, value string, least, most int) string {
	return f.check(field, value, least, most, "")
}

// Text is Line for a text that may have line breaks and tabs.
func (f Fields) Text(field, value string, least, most int) string {
	return f.check(field, value, least, most, "\n\r\t")
}

func (f Fields) check(field, value string, least, most int, also string) string {
	if !utf8.ValidString(value) {
		f.Add(field, "must be valid UTF-8")
		return ""
	}
	value = strings.TrimSpace(value)
	switch n := utf8.RuneCountInString(value); {
	case n == 0 && least > 0:
		f.Add(field, "must not be empty")
	case n < least:
		f.Add(field, fmt.Sprintf("must have at least %d characters", least))
	case n > most:
		f.Add(field, fmt.Sprintf("must have at most %d characters", most))
	case strings.ContainsFunc(value, func(c rune) bool { return misleading(c) && !strings.ContainsRune(also, c) }):
		f.Add(field, "must not have control characters")
	case hasUnseen(value):
		f.Add(field, "must not have invisible characters")
	case n > 0 && !strings.ContainsFunc(value, seen):
		f.Add(field, "must have a visible character")
	}
	return value
}

// Plain makes a text that a stranger gave fit to be kept and shown: U+FFFD takes the place of what Line refuses as a control
// character.
func Plain(text string) string {
	return strings.Map(func(c rune) rune {
		if misleading(c) {
			return utf8.RuneError
		}
		return c
	}, text)
}

// misleading holds for what a name must not have: control characters, line and paragraph separators, and the marks that
// turn the direction of writing, with which one name looks like another.
func misleading(c rune) bool {
	return unicode.In(c, unicode.Cc, unicode.Zl, unicode.Zp, unicode.Bidi_Control)
}
