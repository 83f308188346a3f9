package agent

import "fmt"

// node is a value of a configuration file, whichever language the file is in.
type node struct {
	kind    kind
	place   place
	text    string  // of a text or a JSON number; the tag of an unknown
	integer int64   // of an integer
	number  float64 // of an integer or a number
	entries []entry // of a mapping, in the order of the file; keys may be there twice
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

// maxDepth bounds recursion. The deepest key of a configuration is 6 levels down.
const maxDepth = 64

// syntaxError is what ends the reading of a file before its keys are known.
type syntaxError struct {
	place   place
	message string
}

func (e *syntaxError) Error() string { return e.message }

func syntaxErrorf(at place, format string, args ...any) error {
	return &syntaxError{at, fmt.Sprintf(format, args...)}
}
