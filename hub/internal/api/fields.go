package api

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/excerpt"
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
	text.WriteString(string(wire.ValidationFailed))
	for _, name := range slices.Sorted(maps.Keys(f)) {
		fmt.Fprintf(&text, ": %s %s", name, f[name])
	}

	return text.String()
}

// Is reports whether target is ValidationFailed.
func (f Fields) Is(target error) bool { return target == wire.ValidationFailed }

// Err returns the fields as an error, or nil if all fields are valid.
func (f Fields) Err() error {
	if len(f) == 0 {
		return nil
	}

	return f
}

// Limits of the fields of an error, which a client chooses.
const (
	maxFields = 100
	maxField  = 300 // bytes of a name, and of a reason
)

// Add adds a field with the reason, in words that follow the name of the field: "must be ...". The
// first reason is kept, and the first 100 fields.
func (f Fields) Add(field, reason string) {
	field = excerpt.Shorten(field, maxField)
	if _, ok := f[field]; !ok && len(f) < maxFields {
		f[field] = excerpt.Shorten(reason, maxField)
	}
}

// AddError is Add with the text of an error, unless it is nil.
func (f Fields) AddError(field string, err error) {
	if err != nil {
		f.Add(field, err.Error())
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

const (
	nonJoiner    = '\u200c'
	joiner       = '\u200d'
	keycap       = '\u20e3' // combines with the digit before it
	blankBraille = '\u2800'
)

// hasInvisible reports whether value contains a character that displays nothing and does not change
// its neighbors: format characters (category Cf), such as a zero-width space, and fillers.
// Prepended marks of Arabic and Syriac numbers are visible.
func hasInvisible(value string) bool {
	chars := []rune(value)
	at := func(i int) rune {
		if i < 0 || i >= len(chars) {
			return 0
		}

		return chars[i]
	}
	for i, c := range chars {
		switch {
		case c == nonJoiner || c == joiner:
			if !joins(at(i-1)) || !joins(at(i+1)) {
				return true
			}
		case unicode.Is(unicode.Variation_Selector, c):
			if !varies(at(i-1)) && at(i+1) != keycap {
				return true
			}
		case c == blankBraille, unicode.Is(unicode.Other_Default_Ignorable_Code_Point, c),
			unicode.Is(unicode.Cf, c) && !unicode.Is(unicode.Prepended_Concatenation_Mark, c):
			return true
		}
	}

	return false
}

// joins reports whether a joiner or non-joiner next to c has an effect: c is a letter or a part of
// an emoji.
func joins(c rune) bool { return unicode.In(c, unicode.L, unicode.M, unicode.S) }

// varies reports whether a variation selector after c has an effect: c is a symbol with an emoji
// form, or a character of a script with variants.
func varies(c rune) bool {
	return c > unicode.MaxASCII && unicode.Is(unicode.S, c) || strings.ContainsRune("‼⁉〰ℹ", c) ||
		unicode.In(c, unicode.Han, unicode.Mongolian, unicode.Phags_Pa, unicode.Myanmar) && !unicode.Is(unicode.Variation_Selector, c)
}

// isVisible reports whether c is displayed by itself, which combining marks are not.
func isVisible(c rune) bool { return unicode.In(c, unicode.L, unicode.N, unicode.P, unicode.S) }
