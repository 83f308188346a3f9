package api

import (
	"strings"
	"unicode"
)

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
