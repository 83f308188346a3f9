package skill

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// maxFrontmatter bounds frontmatter, its fences included, in bytes.
const maxFrontmatter = 64 << 10

const bom = "\xef\xbb\xbf"

// headBytes has room for a byte order mark, and for what follows the last fence that counts.
const headBytes = len(bom) + maxFrontmatter + 1

// Document is a SKILL.md taken apart. All of it is valid UTF-8.
type Document struct {
	Name        string // "" if it has none; on one line
	Description string // "" if it has none; may have several lines
	Body        string // what follows the frontmatter, or all if there is none
}

// Keys of the frontmatter that count.
const (
	keyName        = "name"
	keyDescription = "description"
)

var (
	errNoFrontmatter = errors.New("the file does not begin with frontmatter")
	errNotClosed     = fmt.Errorf("no line --- closes it within %d bytes", maxFrontmatter)
)

// Parse takes data apart as well as it can. The error says what was wrong with the frontmatter, which stands between two
// lines --- at the start and is a YAML map; the Document is as good as it gets even so.
//
// If the frontmatter is not YAML, name and description are each read from its own lines: as YAML, which it may be by
// itself, or as it stands. That is what the author of "description: Use this: when" meant. As it stands a name counts
// only if it looks like one: letters, digits, "-", "_", "." and single blanks, the first of them a letter or a digit.
func Parse(data []byte) (Document, error) {
	front, body, err := split(data)
	var doc Document
	if err == nil {
		doc.Name, doc.Description, err = fields(front)
	}
	doc.Body = strings.ToValidUTF8(string(body), "\uFFFD")
	return doc, err
}

// split finds the frontmatter, with the line that opens it so that the lines of a YAML error are those of the file.
func split(data []byte) (front, body []byte, err error) {
	data = bytes.TrimPrefix(data, []byte(bom))
	head := data[:min(len(data), maxFrontmatter)]
	opened := false
	for at := 0; at < len(head); {
		end := len(head)
		if i := bytes.IndexByte(head[at:], '\n'); i >= 0 {
			end = at + i + 1
		} else if len(data) > len(head) {
			break // the line goes on
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

// trimBody cuts empty lines off, and keeps what indents the first line: four spaces mean code.
func trimBody(body []byte) []byte {
	body = bytes.TrimRight(body, " \t\r\n")
	if i := bytes.LastIndexByte(body[:len(body)-len(bytes.TrimLeft(body, " \t\r\n"))], '\n'); i >= 0 {
		body = body[i+1:]
	}
	return body
}

func fields(front []byte) (name, description string, err error) {
	pairs, err := parseMap(front)
	whole := err == nil
	text := func(key string) string {
		value, fault := scalar(pairs, key)
		if err = cmp.Or(err, fault); whole && fault == nil {
			return value
		}
		return field(front, key)
	}
	name, description = oneLine(text(keyName)), printable(text(keyDescription))
	if err != nil {
		err = fmt.Errorf("it is read line by line: %w", err)
	}
	return name, description, err
}

// parseMap returns the keys and values of a YAML map, one after the other. It stays with nodes: to decode into Go values
// takes time and memory that grow with the square of how often a key is repeated, 64 KiB of it more than there is.
func parseMap(data []byte) ([]*yaml.Node, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, err
	}
	if len(doc.Content) == 0 || doc.Content[0].ShortTag() == "!!null" {
		return nil, nil
	}
	if doc.Content[0].Kind != yaml.MappingNode {
		return nil, errors.New("it is not a map")
	}
	return doc.Content[0].Content, nil
}

// scalar is the text of a key, or "" without it. Of a key that stands there twice the first counts.
func scalar(pairs []*yaml.Node, key string) (text string, err error) {
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

// printable leaves out control characters, which YAML can escape, other than tabs and line breaks.
func printable(s string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD")))
}

// oneLine makes a name that can stand in a list and in a permission rule.
func oneLine(s string) string { return strings.Join(strings.Fields(printable(s)), " ") }
