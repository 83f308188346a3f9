package main

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// visible returns a text in which each character that a terminal does not show as itself has its
// number: control characters, line breaks, bidirectional and invisible ones, and all spaces but the
// usual one. The user decides by what the text says.
func visible(text string) string {
	var out strings.Builder
	for _, r := range text {
		if strconv.IsPrint(r) && !unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) && r != brailleBlank {
			out.WriteRune(r)
			continue
		}

		fmt.Fprintf(&out, "<U+%04X>", r)
	}

	return out.String()
}

// brailleBlank is a letter of braille without a point.
const brailleBlank = '\u2800'
