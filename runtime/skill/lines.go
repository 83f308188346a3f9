package skill

import (
	"regexp"
	"strings"
)

// field reads one key from frontmatter that is not valid YAML: it parses the lines of the key as
// YAML, or else as plain text.
func field(front []byte, key string) string {
	lines := linesOf(string(front), key)
	if lines == nil {
		return ""
	}
	if pairs, err := parseMap([]byte(strings.Join(lines, "\n"))); err == nil {
		if text, err := scalar(pairs, key); err == nil {
			return text
		}
	}
	lines[0] = lines[0][len(key)+1:]
	var words []string
	for _, line := range lines {
		if line = strings.TrimSpace(line); line != "" {
			words = append(words, line)
		}
	}
	if len(words) > 0 && opensBlock(words[0]) {
		words = words[1:]
	}
	text := unquote(strings.Join(words, " "))
	if key == keyName && !nameForm.MatchString(text) {
		return "" // part of another value
	}
	return text
}

var nameForm = regexp.MustCompile(`^[\pL\pN]( ?[\pL\pM\pN._-])*$`)

// linesOf returns the line of a key and the empty and indented lines after it.
func linesOf(front, key string) []string {
	var lines []string
	for line := range strings.Lines(front) {
		line = strings.TrimRight(line, "\r\n")
		switch {
		case lines == nil && strings.HasPrefix(line, key+":"):
			lines = []string{line}
		case lines == nil:
		case line == "" || line[0] == ' ' || line[0] == '\t':
			lines = append(lines, line)
		default:
			return lines
		}
	}
	return lines
}

// opensBlock reports whether a value is the header of a YAML block: | or >, and its modifiers.
func opensBlock(s string) bool {
	return (s[0] == '|' || s[0] == '>') && strings.Trim(s[1:], "+-123456789") == ""
}

// unquote removes quotes around a text. The text can contain further quotes, which YAML rejects.
func unquote(s string) string {
	if n := len(s); n >= 2 && s[0] == s[n-1] && (s[0] == '"' || s[0] == '\'') {
		return s[1 : n-1]
	}
	return s
}
