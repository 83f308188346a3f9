package skill

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/seed93082962/agenthost/internal/pattern"
	"go.yaml.in/yaml/v3"
)

// maxFrontmatter limits the bytes of frontmatter with its fences.
const maxFrontmatter = 64 << 10

const bom = "\xef\xbb\xbf"

// headBytes includes a byte order mark and the byte after the last possible fence.
const headBytes = len(bom) + maxFrontmatter + 1

// Document is a parsed SKILL.md. All texts are valid UTF-8.
type Document struct {
	Name        string // "" if there is none; one line
	Description string // "" if there is none; can have several lines
	Type        string // "" if there is none; one line. Only hubs use it.
	Hidden      bool   // disable-model-invocation: the skill is not listed for the model
	Body        string // the text after the frontmatter, or the whole text without frontmatter
}

// Keys of the frontmatter that are read.
const (
	keyName        = "name"
	keyDescription = "description"
	keyType        = "type"
	keyHidden      = "disable-model-invocation"
)

var (
	errNoFrontmatter = errors.New("the file does not begin with frontmatter")
	errNotClosed     = fmt.Errorf("the frontmatter is not closed by a line --- within %d bytes", maxFrontmatter)
)

// Parse parses a SKILL.md. Its frontmatter is a YAML map between two lines --- at the beginning.
// The Document is usable even if there is an error, which describes a problem of the frontmatter.
//
// If the frontmatter is not YAML, the lines of name and of description are parsed separately: as
// YAML, or as plain text if they are not YAML, such as "description: Use this: when". A name in
// plain text consists of letters, digits, "-", "_", "." and single blanks and begins with a letter
// or a digit; other names are ignored.
func Parse(data []byte) (Document, error) {
	front, body, err := split(data)
	var doc Document
	if err == nil {
		doc, err = fields(front)
	}

	doc.Body = strings.ToValidUTF8(string(body), "\uFFFD")
	return doc, err
}

// split separates frontmatter and body. The frontmatter includes its first line, so that a YAML
// error has the line number of the file.
func split(data []byte) ([]byte, []byte, error) {
	data = bytes.TrimPrefix(data, []byte(bom))
	head := data[:min(len(data), maxFrontmatter)]
	opened := false
	for at := 0; at < len(head); {
		end := len(head)
		if i := bytes.IndexByte(head[at:], '\n'); i >= 0 {
			end = at + i + 1
		} else if len(data) > len(head) {
			break // the line is longer
		}

		line := bytes.TrimRight(head[at:end], " \t\r\n")
		switch fence := string(line) == "---"; {
		case fence && opened:
			return head[:at], trimBody(data[end:]), nil
		case fence:
			opened = true
		case !opened && len(line) > 0:
			return nil, trimBody(data), errNoFrontmatter
		}

		at = end
	}

	if opened {
		return nil, trimBody(data), errNotClosed
	}

	return nil, trimBody(data), errNoFrontmatter
}

// trimBody removes empty lines at both ends, not the indentation of the first line: four spaces
// mean code.
func trimBody(body []byte) []byte {
	body = bytes.TrimRight(body, " \t\r\n")
	if i := bytes.LastIndexByte(body[:len(body)-len(bytes.TrimLeft(body, " \t\r\n"))], '\n'); i >= 0 {
		body = body[i+1:]
	}

	return body
}

func fields(front []byte) (Document, error) {
	pairs, err := parseMap(front)
	valid := err == nil
	text := func(key string) string {
		value, scalarErr := scalar(pairs, key)
		if err = cmp.Or(err, scalarErr); valid && scalarErr == nil {
			return value
		}

		return field(front, key)
	}
	var doc Document
	doc.Name, doc.Description = oneLine(text(keyName)), printable(text(keyDescription))
	doc.Type = oneLine(optional(front, pairs, valid, keyType))
	doc.Hidden = strings.EqualFold(strings.TrimSpace(optional(front, pairs, valid, keyHidden)), "true")
	if err != nil {
		err = fmt.Errorf("the frontmatter is read line by line: %w", err)
	}

	return doc, err
}

// optional returns the text of a key that may have any value.
func optional(front []byte, pairs []*yaml.Node, valid bool, key string) string {
	if !valid {
		return field(front, key)
	}

	text, _ := scalar(pairs, key) // another value has no effect
	return text
}

// parseMap returns the keys and values of a YAML map as alternating nodes. Decoding into Go values
// takes time and memory quadratic in the number of repetitions of a key: 64 KiB of frontmatter
// could exhaust the memory.
func parseMap(data []byte) ([]*yaml.Node, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, err
	}

	if len(doc.Content) == 0 || doc.Content[0].ShortTag() == "!!null" {
		return nil, nil
	}

	if doc.Content[0].Kind != yaml.MappingNode {
		return nil, errors.New("the frontmatter is not a map")
	}

	return doc.Content[0].Content, nil
}

// scalar returns the text of a key, or "" if there is none. The first of repeated keys counts.
func scalar(pairs []*yaml.Node, key string) (string, error) {
	var err error
	var text string
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i].Kind != yaml.ScalarNode || pairs[i].Value != key {
			continue
		}

		value := pairs[i+1]
		if value.Kind == yaml.AliasNode {
			value = value.Alias
		}

		if value.Kind != yaml.ScalarNode {
			return "", fmt.Errorf("%s is not a text", key)
		}

		err = value.Decode(&text)
		return text, err
	}

	return "", nil
}

// printable removes control characters other than tabs and line breaks. YAML escapes can contain
// them.
func printable(s string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}

		return r
	}, strings.ToValidUTF8(s, "\uFFFD")))
}

// oneLine makes a name that is usable in a list and in a permission rule.
func oneLine(s string) string { return strings.Join(strings.Fields(printable(s)), " ") }

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
	if key == keyName && !nameForm().MatchString(text) {
		return "" // part of another value
	}

	return text
}

var nameForm = pattern.Compile(`^[\pL\pN]( ?[\pL\pM\pN._-])*$`)

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
