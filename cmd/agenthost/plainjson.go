package main

import (
	"bytes"
	"strings"
)

// plainJSON returns JSON without the comments and the commas before the end of a list or an object
// that VS Code permits. The rest has the same offsets.
func plainJSON(text []byte) []byte {
	out := bytes.Clone(bytes.TrimPrefix(text, []byte("\uFEFF")))
	comma := -1 // a comma after which there is only space
	for i := 0; i < len(out); i++ {
		switch rest := out[i:]; {
		case out[i] == '"':
			comma = -1
			for i++; i < len(out) && out[i] != '"' && out[i] != '\n'; i++ {
				if out[i] == '\\' {
					i++
				}
			}
		case bytes.HasPrefix(rest, []byte("//")):
			line, _, _ := bytes.Cut(rest, []byte("\n"))
			i += blank(line) - 1
		case bytes.HasPrefix(rest, []byte("/*")):
			before, _, closed := bytes.Cut(rest[2:], []byte("*/"))
			if !closed {
				return out
			}

			i += blank(rest[:len(before)+4]) - 1
		case out[i] == ',':
			comma = i
		case comma >= 0 && (out[i] == '}' || out[i] == ']'):
			out[comma] = ' '
			comma = -1
		case !strings.ContainsRune(" \t\r\n", rune(out[i])):
			comma = -1
		}
	}

	return out
}

// blank replaces a text by spaces, except for the ends of its lines, and returns its length.
func blank(text []byte) int {
	for i, c := range text {
		if c != '\n' {
			text[i] = ' '
		}
	}

	return len(text)
}
