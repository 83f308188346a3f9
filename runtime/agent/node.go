package agent

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// A configuration file in YAML or JSON is a tree of yaml.Node without aliases and merge keys. The
// content of a map are its keys and values in the order of the file; keys can be repeated.

// place counts lines and columns from 1. Column 0 is unknown.
type place struct{ line, column int }

func placeOf(n *yaml.Node) place { return place{n.Line, n.Column} }

// valueType is the type of a value: the tag of its node, with one tag for all texts.
type valueType string

const (
	kindNull    valueType = "!!null"
	kindBoolean valueType = "!!bool"
	kindInteger valueType = "!!int"
	kindNumber  valueType = "!!float"
	kindText    valueType = "!!str"
	kindList    valueType = "!!seq"
	kindMapping valueType = "!!map"
)

// kindOf returns the type of a value. It is none of the constants for another tag, and for a number
// or a boolean that cannot be decoded.
func kindOf(n *yaml.Node) valueType {
	tag := valueType(n.ShortTag())
	if n.Kind != yaml.ScalarNode {
		if n.Kind == yaml.SequenceNode && tag == kindList || n.Kind == yaml.MappingNode && tag == kindMapping {
			return tag
		}

		return ""
	}

	var err error
	switch tag {
	case kindNull, kindText:
	case "!!timestamp", "!!merge": // nothing in a configuration is a time: 2024-01-01 is text
		return kindText
	case kindBoolean:
		err = n.Decode(new(bool))
	case kindInteger, kindNumber:
		if tag == kindInteger && n.Decode(new(int64)) == nil {
			return kindInteger
		}

		tag = kindNumber
		_, err = numberOf(n)
	default:
		return ""
	}

	if err != nil {
		return ""
	}

	return tag
}

// numberOf decodes a number. The YAML package rejects some integers of more than 63 bits.
func numberOf(n *yaml.Node) (float64, error) {
	var err error
	var v float64
	if err = n.Decode(&v); err != nil {
		v, err = strconv.ParseFloat(n.Value, 64)
	}

	return v, err
}

var names = map[valueType]string{
	kindNull: "null", kindBoolean: "a boolean", kindInteger: "a number", kindNumber: "a number", kindText: "a string", kindList: "a list",
	kindMapping: "a map",
}

// nameOf names the type of a value in a fault.
func nameOf(n *yaml.Node) string {
	return cmp.Or(names[kindOf(n)], "a value with the tag "+n.ShortTag())
}

// plain returns the value as encoding/json decodes it into an any.
func plain(n *yaml.Node) any {
	switch kindOf(n) {
	case kindNull:
		return nil
	case kindBoolean:
		var v bool
		_ = n.Decode(&v)
		return v
	case kindInteger, kindNumber:
		v, _ := numberOf(n)
		return v
	case kindList:
		list := make([]any, len(n.Content))
		for i, item := range n.Content {
			list[i] = plain(item)
		}

		return list
	case kindMapping:
		fields := make(map[string]any, len(n.Content)/2)
		for i := 0; i+1 < len(n.Content); i += 2 {
			fields[n.Content[i].Value] = plain(n.Content[i+1])
		}

		return fields
	default:
		return n.Value
	}
}

// schema decodes a JSON Schema as JSON without white space, whose members keep their order: models
// write the properties of a value in the order of its schema.
func (d *decoder) schema(n *yaml.Node, to *json.RawMessage, key string) {
	if d.form && kindOf(n) == kindNull || !d.want(n, key, kindMapping) {
		return
	}

	text, err := appendNode(nil, n)
	if err != nil {
		d.fault(key, "%s", err)
		return
	}

	*to = text
}

// appendNode appends a value as json.Marshal writes it, with the keys of maps in their order. A key
// that is repeated in a map is an error.
func appendNode(dst []byte, n *yaml.Node) ([]byte, error) {
	open, end := byte('['), byte(']')
	step := 1
	switch kindOf(n) {
	case kindList:
	case kindMapping:
		open, end, step = '{', '}', 2
	case kindInteger:
		var v int64
		err := n.Decode(&v)
		return strconv.AppendInt(dst, v, 10), err
	default:
		text, err := json.Marshal(plain(n))
		return append(dst, text...), err
	}

	known := map[string]bool{}
	dst = append(dst, open)
	var err error
	for i := 0; i+step <= len(n.Content); i += step {
		if i > 0 {
			dst = append(dst, ',')
		}

		if key := n.Content[i].Value; step == 2 {
			if known[key] {
				return nil, fmt.Errorf("must not have the key %q twice", key)
			}

			known[key] = true
			name, err := json.Marshal(key)
			if err != nil {
				return nil, err
			}

			dst = append(append(dst, name...), ':')
		}

		if dst, err = appendNode(dst, n.Content[i+step-1]); err != nil {
			return nil, err
		}
	}

	return append(dst, end), nil
}

// maxDepth limits recursion. A configuration has at most 6 levels, apart from schemas.
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
