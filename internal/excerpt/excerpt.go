// Package excerpt truncates strings. No function splits a character. Work and memory are linear in
// the length of the input.
package excerpt

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Head returns the longest prefix of s with at most n bytes.
func Head[T ~string | ~[]byte](s T, n int) T {
	if len(s) <= n {
		return s
	}

	end := max(n, 0)
	for end > 0 && n-end < utf8.UTFMax && !utf8.RuneStart(s[end]) {
		end--
	}

	if n-end == utf8.UTFMax { // not UTF-8
		end = n
	}

	return s[:end]
}

// Tail returns the longest suffix of s with at most n bytes.
func Tail[T ~string | ~[]byte](s T, n int) T {
	if len(s) <= n {
		return s
	}

	from := len(s) - max(n, 0)
	start := from
	for start < len(s) && start-from < utf8.UTFMax && !utf8.RuneStart(s[start]) {
		start++
	}

	if start-from == utf8.UTFMax { // not UTF-8
		start = from
	}

	return s[start:]
}

// Characters returns the first n characters of s.
func Characters(s string, n int) string {
	if len(s) <= n {
		return s
	}

	for i := range s {
		if n == 0 {
			return s[:i]
		}

		n--
	}

	return s
}

// Shorten returns s as valid UTF-8. If s has more than n bytes, the result has at most n bytes and
// ends in "...".
func Shorten(s string, n int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= n {
		return s
	}

	return Head(s, n-len("...")) + "..."
}

// Ends returns s as valid UTF-8, and reports whether it was cut. If s has more than n bytes, the
// result has at most n bytes: the beginning, a line with the number of bytes that are missing, and
// the end. A limit that is too small for the line returns only the line.
func Ends(s string, n int) (string, bool) {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= n {
		return s, false
	}

	room := max(n-len("\n[ bytes cut]\n")-len(strconv.Itoa(len(s))), 0)
	head, tail := Head(s, room/2), Tail(s, room-room/2)
	return fmt.Sprintf("%s\n[%d bytes cut]\n%s", head, len(s)-len(head)-len(tail), tail), true
}
