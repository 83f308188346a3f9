package api

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Fields are the invalid fields of a request, by the name of the field, with the reason. The
// response is 400 validation_failed with all of them in data.fields. A handler checks every field
// before it returns them:
//
//	invalid := api.Fields{}
//	name := invalid.Line("name", in.Name, 1, 64)
//	note := invalid.Text("note", in.Note, 0, 2000)
//	if err := invalid.Err(); err != nil {
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

// Is reports whether target is ValidationFailed.
func (f Fields) Is(target error) bool { return target == ValidationFailed }

// Err returns the fields as an error, or nil if all fields are valid.
func (f Fields) Err() error {
	if len(f) == 0 {
		return nil
	}
	return f
}

// Add adds a field with the reason, in words that follow the name of the field: "must be ...". The
// first reason is kept.
func (f Fields) Add(field, reason string) {
	if _, ok := f[field]; !ok {
		f[field] = reason
	}
}

// Line checks a text of one line, such as a name, and returns it without surrounding white space.
// The text must have least to most characters, and no control characters, bidirectional controls or
// invisible characters, except joiners within words and emoji and variation selectors. A text that
// is not empty must have a visible character.
func (f Fields) Line(field, value string, least, most int) string {
	return f.check(field, value, least, most, "")
}

// Text is Line for a text that may contain line breaks and tabs.
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
	case strings.ContainsFunc(value, func(c rune) bool { return isControl(c) && !strings.ContainsRune(also, c) }):
		f.Add(field, "must not have control characters")
	case hasInvisible(value):
		f.Add(field, "must not have invisible characters")
	case n > 0 && !strings.ContainsFunc(value, isVisible):
		f.Add(field, "must have a visible character")
	}
	return value
}

// Plain returns untrusted text in a form that can be stored and displayed: U+FFFD replaces the
// control characters that Line rejects.
func Plain(text string) string {
	return strings.Map(func(c rune) rune {
		if isControl(c) {
			return utf8.RuneError
		}
		return c
	}, text)
}

// isControl reports whether c is a control character, a line or paragraph separator, or a
// bidirectional control, with which one name can look like another.
func isControl(c rune) bool {
	return unicode.In(c, unicode.Cc, unicode.Zl, unicode.Zp, unicode.Bidi_Control)
}
