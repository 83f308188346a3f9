package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sort"
	"strconv"
	"strings"

	"github.com/seed93082962/agenthost/internal/pattern"
	"go.yaml.in/yaml/v3"
)

// maxAliased limits the number of values from aliases, so that a few lines cannot expand to
// billions of values.
const maxAliased = 100_000

func readYAML(data []byte) (*yaml.Node, error) {
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

var yamlMessage = pattern.Compile(`(?s)^yaml: (?:line (\d+): )?(.*)$`)

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
	if m := yamlMessage().FindStringSubmatch(message); m != nil {
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

// yamlReader replaces aliases and merge keys (<<) in a tree by the values that they refer to.
type yamlReader struct {
	open    map[*yaml.Node]bool // anchors whose alias is being followed
	aliased int                 // values from aliases
}

func (r *yamlReader) value(n *yaml.Node, depth int) (*yaml.Node, error) {
	if depth > maxDepth {
		return nil, syntaxErrorf(placeOf(n), "nested deeper than %d levels", maxDepth)
	}

	if len(r.open) > 0 {
		if r.aliased++; r.aliased > maxAliased {
			return nil, syntaxErrorf(placeOf(n), "aliases expand to more than %d values", maxAliased)
		}
	}

	if n.Kind == yaml.AliasNode {
		if r.open[n.Alias] {
			return nil, syntaxErrorf(placeOf(n), "alias *%s is inside the value that it refers to", n.Value)
		}

		r.open[n.Alias] = true
		defer delete(r.open, n.Alias)
		return r.value(n.Alias, depth)
	}

	if kindOf(n) == kindMapping {
		return n, r.mapping(n, depth)
	}

	for i, item := range n.Content {
		v, err := r.value(item, depth+1)
		if err != nil {
			return nil, err
		}

		n.Content[i] = v
	}

	return n, nil
}

func (r *yamlReader) mapping(n *yaml.Node, depth int) error {
	var merges []*yaml.Node
	seen := map[string]bool{}
	content := make([]*yaml.Node, 0, len(n.Content))
	for i := 0; i+1 < len(n.Content); i += 2 {
		name := n.Content[i]
		v, err := r.value(n.Content[i+1], depth+1)
		if err != nil {
			return err
		}

		if name.Kind == yaml.AliasNode {
			at := name
			copied := *name.Alias
			name = &copied
			name.Line, name.Column = at.Line, at.Column
		}

		if name.Kind != yaml.ScalarNode {
			return syntaxErrorf(placeOf(n.Content[i]), "a key must be a string")
		}

		if name.ShortTag() == "!!merge" {
			merges = append(merges, v)
			continue
		}

		seen[name.Value] = true
		content = append(content, name, v)
	}

	for _, m := range merges {
		from := []*yaml.Node{m}
		if kindOf(m) == kindList {
			from = m.Content
		}

		for _, f := range from {
			if kindOf(f) != kindMapping {
				return syntaxErrorf(placeOf(m), "<< must refer to a map or a list of maps")
			}

			for i := 0; i+1 < len(f.Content); i += 2 {
				if key := f.Content[i]; !seen[key.Value] {
					seen[key.Value] = true
					content = append(content, key, f.Content[i+1])
				}
			}
		}
	}

	n.Content = content
	return nil
}

// yamlOf encodes through JSON, so that names and omitted values are defined once. The omitempty of
// the YAML package does not distinguish nil from empty.
func yamlOf(v any) (*yaml.Node, error) {
	data, err := json.Marshal(v)
	var n *yaml.Node
	if err == nil {
		n, err = readJSON(data)
	}

	if err != nil {
		return nil, fmt.Errorf("marshal configuration: %w", err)
	}

	return n, nil
}

// styleOf returns the style in which a text is encoded. The package encodes text of several lines
// as a block, some of which do not decode to the same text.
func styleOf(s string) yaml.Style {
	if strings.Contains(s, "\n") && !plainBlock().MatchString(s) {
		return yaml.DoubleQuotedStyle
	}

	return 0
}

// plainBlock matches printable text that neither begins nor ends with white space, except for a
// final line end.
var plainBlock = pattern.Compile(`^[^\pC\pZ](?:(?:[^\pC\pZ]|[ \n])*[^\pC\pZ])?\n?$`)
