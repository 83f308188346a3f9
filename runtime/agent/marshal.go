package agent

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

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
