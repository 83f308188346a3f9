package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"sort"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxAliased limits the number of values from aliases, so that a few lines cannot expand to
// billions of values.
const maxAliased = 100_000

func readYAML(data []byte) (*node, error) {
	doc, err := parseYAML(data)
	if err != nil {
		return nil, yamlError(data, err)
	}
	if doc == nil {
		return nil, errEmpty
	}
	r := yamlReader{open: map[*yaml.Node]bool{}}
	return r.value(doc, 1)
}

// parseYAML returns the root of the document, or nil if there is none.
func parseYAML(data []byte) (*yaml.Node, error) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, err
	}
	switch err := dec.Decode(&second); {
	case errors.Is(err, io.EOF):
		return doc.Content[0], nil
	case err != nil:
		return nil, err
	}
	return nil, syntaxErrorf(place{second.Line, second.Column}, "a second document begins here; a configuration is one document")
}

var yamlMessage = regexp.MustCompile(`(?s)^yaml: (?:line (\d+): )?(.*)$`)

// maxSearched bounds the file, in bytes, of which yamlError parses prefixes.
const maxSearched = 64 << 10

// yamlError determines the line of an error. The error of the YAML package has no line, or the
// first line of the block, or the line before that. The actual line is the last line of the
// shortest prefix that has the same error. In a large
// file, it is the line of the error.
func yamlError(data []byte, err error) error {
	if _, ok := errors.AsType[*syntaxError](err); ok {
		return err
	}
	message, line := err.Error(), 1
	if m := yamlMessage.FindStringSubmatch(message); m != nil {
		message = m[2]
		line, _ = strconv.Atoi(m[1])
	}
	if len(data) > maxSearched {
		return syntaxErrorf(place{line: max(line, 1)}, "%s", message)
	}
	var ends []int
	for end := range data {
		if data[end] == '\n' {
			ends = append(ends, end+1)
		}
	}
	line = 1 + sort.Search(len(ends), func(i int) bool {
		_, e := parseYAML(data[:ends[i]])
		return e != nil && e.Error() == err.Error()
	})
	return syntaxErrorf(place{line: line}, "%s", message)
}

// yamlReader converts YAML nodes into nodes, and resolves aliases and merge keys (<<).
type yamlReader struct {
	open    map[*yaml.Node]bool // anchors whose alias is being followed
	aliased int                 // values from aliases
}

func (r *yamlReader) value(y *yaml.Node, depth int) (*node, error) {
	at := place{y.Line, y.Column}
	if depth > maxDepth {
		return nil, syntaxErrorf(at, "nested deeper than %d levels", maxDepth)
	}
	if len(r.open) > 0 {
		if r.aliased++; r.aliased > maxAliased {
			return nil, syntaxErrorf(at, "aliases expand to more than %d values", maxAliased)
		}
	}
	n := &node{place: at, kind: kindUnknown, text: y.ShortTag()}
	switch {
	case y.Kind == yaml.AliasNode:
		return r.alias(y, depth)
	case y.Kind == yaml.ScalarNode:
		scalar(n, y)
	case y.Kind == yaml.SequenceNode && n.text == "!!seq":
		n.kind = kindList
		for _, c := range y.Content {
			v, err := r.value(c, depth+1)
			if err != nil {
				return nil, err
			}
			n.items = append(n.items, v)
		}
	case y.Kind == yaml.MappingNode && n.text == "!!map":
		n.kind = kindMapping
		return n, r.mapping(n, y, depth)
	}
	return n, nil
}

func (r *yamlReader) alias(y *yaml.Node, depth int) (*node, error) {
	if r.open[y.Alias] {
		return nil, syntaxErrorf(place{y.Line, y.Column}, "alias *%s is inside the value that it refers to", y.Value)
	}
	r.open[y.Alias] = true
	defer delete(r.open, y.Alias)
	return r.value(y.Alias, depth+1)
}

func scalar(n *node, y *yaml.Node) {
	var err error
	switch tag := n.text; tag {
	case "!!null":
		n.kind = kindNull
	case "!!bool":
		n.kind = kindBoolean
		err = y.Decode(&n.boolean)
	case "!!str", "!!timestamp", "!!merge": // nothing in a configuration is a time: 2024-01-01 is text
		n.kind, n.text = kindText, y.Value
	case "!!int", "!!float":
		n.kind = kindNumber
		err = y.Decode(&n.number)
		if tag == "!!int" && y.Decode(&n.integer) == nil {
			n.kind = kindInteger
		}
	}
	if err != nil {
		n.kind = kindUnknown
	}
}

func (r *yamlReader) mapping(n *node, y *yaml.Node, depth int) error {
	var merges []*node
	seen := map[string]bool{}
	for i := 0; i+1 < len(y.Content); i += 2 {
		name := y.Content[i]
		at := place{name.Line, name.Column}
		v, err := r.value(y.Content[i+1], depth+1)
		if err != nil {
			return err
		}
		if name.Kind == yaml.AliasNode {
			name = name.Alias
		}
		if name.Kind != yaml.ScalarNode {
			return syntaxErrorf(at, "a key must be a string")
		}
		if name.ShortTag() == "!!merge" {
			merges = append(merges, v)
			continue
		}
		seen[name.Value] = true
		n.entries = append(n.entries, entry{name.Value, at, v})
	}
	for _, m := range merges {
		from := []*node{m}
		if m.kind == kindList {
			from = m.items
		}
		for _, f := range from {
			if f.kind != kindMapping {
				return syntaxErrorf(m.place, "<< must refer to a map or a list of maps")
			}
			for _, e := range f.entries {
				if !seen[e.key] {
					seen[e.key] = true
					n.entries = append(n.entries, e)
				}
			}
		}
	}
	return nil
}

// yamlOf encodes through JSON, so that names and omitted values are defined once. The omitempty of
// the YAML package does not distinguish nil from empty.
func yamlOf(v any) (*yaml.Node, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("marshal configuration: %w", err)
	}
	n, err := readJSON(data)
	if err != nil {
		return nil, fmt.Errorf("marshal configuration: %w", err)
	}
	return n.yaml(), nil
}

func (n *node) yaml() *yaml.Node {
	switch n.kind {
	case kindMapping:
		y := &yaml.Node{Kind: yaml.MappingNode}
		for _, e := range n.entries {
			y.Content = append(y.Content, yamlText(e.key), e.value.yaml())
		}
		return y
	case kindList:
		y := &yaml.Node{Kind: yaml.SequenceNode}
		for _, item := range n.items {
			y.Content = append(y.Content, item.yaml())
		}
		return y
	case kindText:
		return yamlText(n.text)
	case kindBoolean:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: strconv.FormatBool(n.boolean)}
	case kindNull:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: "null"}
	default: // a number
		return &yaml.Node{Kind: yaml.ScalarNode, Value: n.text}
	}
}

func yamlText(s string) *yaml.Node {
	y := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s}
	// The package encodes text of several lines as a block, some of which do not decode to the same
	// text.
	if strings.Contains(s, "\n") && !plainBlock.MatchString(s) {
		y.Style = yaml.DoubleQuotedStyle
	}
	return y
}

// plainBlock matches printable text that neither begins nor ends with white space, except for a
// final line end.
var plainBlock = regexp.MustCompile(`^[^\pC\pZ](?:(?:[^\pC\pZ]|[ \n])*[^\pC\pZ])?\n?$`)
