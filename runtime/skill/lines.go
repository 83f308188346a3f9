package skill

import (
	"regexp"
	"strings"
)

// field reads one key from frontmatter that is not YAML as a whole: from its own lines, as YAML or as they stand.
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
		return "" // half of something else
	}
	return text
}

var nameForm = regexp.MustCompile(`^[\pL\pN]( ?[\pL\pM\pN._-])*$`)

// linesOf finds the line of a key, and the empty and indented ones that follow it.
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

// opensBlock holds for the | and > of a block of lines, with what may follow them.
func opensBlock(s string) bool {
	return (s[0] == '|' || s[0] == '>') && strings.Trim(s[1:], "+-123456789") == ""
}

// unquote takes off quotes around all, between which there may be more of them: that is why it was not YAML.
func unquote(s string) string {
	if n := len(s); n >= 2 && s[0] == s[n-1] && (s[0] == '"' || s[0] == '\'') {
		return s[1 : n-1]
	}
	return s
}
