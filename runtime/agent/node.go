package agent

import "fmt"

// node is a value of a configuration file in YAML or JSON.
type node struct {
	kind    kind
	place   place
	text    string  // of a text or a JSON number; the tag of an unknown
	integer int64   // of an integer
	number  float64 // of an integer or a number
	boolean bool
	entries []entry // of a mapping, in the order of the file; keys can be repeated
	items   []*node // of a list
}

type entry struct {
	key   string
	place place
	value *node
}

// place counts lines and columns from 1. Column 0 is unknown.
type place struct{ line, column int }

type kind int

const (
	kindNull kind = iota
	kindBoolean
	kindInteger
	kindNumber
	kindText
	kindList
	kindMapping
	kindUnknown
)

func (n *node) String() string {
	switch n.kind {
	case kindNull:
		return "null"
	case kindBoolean:
		return "a boolean"
	case kindInteger, kindNumber:
		return "a number"
	case kindText:
		return "a string"
	case kindList:
		return "a list"
	case kindMapping:
		return "a map"
	default:
		return "a value with the tag " + n.text
	}
}

// plain returns the value as encoding/json decodes it into an any.
func (n *node) plain() any {
	switch n.kind {
	case kindBoolean:
		return n.boolean
	case kindInteger, kindNumber:
		return n.number
	case kindText, kindUnknown:
		return n.text
	case kindList:
		list := make([]any, len(n.items))
		for i, item := range n.items {
			list[i] = item.plain()
		}
		return list
	case kindMapping:
		fields := make(map[string]any, len(n.entries))
		for _, e := range n.entries {
			fields[e.key] = e.value.plain()
		}
		return fields
	}
	return nil
}

// maxDepth limits recursion. A configuration has at most 6 levels.
const maxDepth = 64

// syntaxError is an error of a file that cannot be parsed.
type syntaxError struct {
	place   place
	message string
}

func (e *syntaxError) Error() string { return e.message }

func syntaxErrorf(at place, format string, args ...any) error {
	return &syntaxError{at, fmt.Sprintf(format, args...)}
}
