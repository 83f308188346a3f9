package api

import (
	"strings"
	"unicode"
)

const (
	nonJoiner    = '\u200c'
	joiner       = '\u200d'
	keycap       = '\u20e3' // makes a key of the digit before it
	blankBraille = '\u2800'
)

// hasUnseen finds what shows nothing and takes no part in what others show: format characters (Unicode's Cf), such as a
// space without a width, and fillers. The signs that stand around Arabic and Syriac numbers are seen.
func hasUnseen(value string) bool {
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

// joins holds for what a joiner or non-joiner is at home between: letters, and the parts of an emoji.
func joins(c rune) bool { return unicode.In(c, unicode.L, unicode.M, unicode.S) }

// varies holds for what has variants that a selector behind it chooses: signs that are pictures too, and characters of
// scripts that are written in several ways.
func varies(c rune) bool {
	return c > unicode.MaxASCII && unicode.Is(unicode.S, c) || strings.ContainsRune("‼⁉〰ℹ", c) ||
		unicode.In(c, unicode.Han, unicode.Mongolian, unicode.Phags_Pa, unicode.Myanmar) && !unicode.Is(unicode.Variation_Selector, c)
}

// seen holds for what shows by itself, which marks do not.
func seen(c rune) bool { return unicode.In(c, unicode.L, unicode.N, unicode.P, unicode.S) }
