package agent

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// yamlOf goes through JSON, so that the names, and which values are left out, are decided once:
// yaml's own omitempty cannot tell nil from empty.
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
	default: // a number: no type of this package has booleans or null
		return &yaml.Node{Kind: yaml.ScalarNode, Value: n.text}
	}
}

func yamlText(s string) *yaml.Node {
	y := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s}
	// The package writes text of several lines as a block, and some of it so that nobody, itself
	// included, reads the same text back.
	if strings.Contains(s, "\n") && !plainBlock.MatchString(s) {
		y.Style = yaml.DoubleQuotedStyle
	}
	return y
}

// plainBlock is printable text that neither begins nor ends with white space, but for a last
// line end.
var plainBlock = regexp.MustCompile(`^[^\pC\pZ](?:(?:[^\pC\pZ]|[ \n])*[^\pC\pZ])?\n?$`)
