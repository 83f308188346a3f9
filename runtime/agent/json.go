package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// readJSON accepts the same input as encoding/json, and records the place of each value.
func readJSON(data []byte) (*yaml.Node, error) {
	if err := json.Unmarshal(data, new(json.RawMessage)); err != nil {
		offset := len(data)
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			offset = int(syntax.Offset) - 1 // the offset is that of the byte after the error
		}

		start := cursor{data: data, place: place{1, 1}}
		return nil, syntaxErrorf(start.to(offset), "%s", err)
	}

	r := jsonReader{dec: json.NewDecoder(bytes.NewReader(data)), cursor: cursor{data: data, place: place{1, 1}}}
	r.dec.UseNumber()
	return r.value(1)
}

// jsonReader reads tokens of valid JSON.
type jsonReader struct {
	dec    *json.Decoder
	cursor cursor
}

// next returns a token and its place. InputOffset is the end of the previous token.
func (r *jsonReader) next() (json.Token, place, error) {
	offset := int(r.dec.InputOffset())
	for offset < len(r.cursor.data) && bytes.IndexByte([]byte(" \t\r\n,:"), r.cursor.data[offset]) >= 0 {
		offset++
	}

	at := r.cursor.to(offset)
	tok, err := r.dec.Token()
	if err != nil {
		return nil, at, syntaxErrorf(at, "%s", err)
	}

	return tok, at, nil
}

func (r *jsonReader) value(depth int) (*yaml.Node, error) {
	tok, at, err := r.next()
	if err != nil {
		return nil, err
	}

	n := &yaml.Node{Kind: yaml.ScalarNode, Line: at.line, Column: at.column}
	switch tok := tok.(type) {
	case nil:
		n.Tag, n.Value = string(kindNull), "null"
	case bool:
		n.Tag, n.Value = string(kindBoolean), strconv.FormatBool(tok)
	case string:
		n.Tag, n.Value, n.Style = string(kindText), tok, styleOf(tok)
	case json.Number:
		n.Tag, n.Value = string(kindNumber), tok.String()
		if _, err = tok.Float64(); err != nil {
			return nil, syntaxErrorf(at, "number %s is out of range", tok)
		}

		if _, err := strconv.ParseInt(n.Value, 10, 64); err == nil {
			n.Tag = string(kindInteger)
		}
	case json.Delim:
		if depth > maxDepth {
			return nil, syntaxErrorf(at, "nested deeper than %d levels", maxDepth)
		}

		n.Kind, n.Tag = yaml.SequenceNode, string(kindList)
		if tok == '{' {
			n.Kind, n.Tag = yaml.MappingNode, string(kindMapping)
		}

		for r.dec.More() {
			v, err := r.value(depth + 1) // of a map, a key or a value
			if err != nil {
				return nil, err
			}

			n.Content = append(n.Content, v)
		}

		_, _, err = r.next()
	}

	return n, err
}

// cursor converts byte offsets into places. Offsets must not decrease.
type cursor struct {
	data   []byte
	offset int
	place  place
}

func (c *cursor) to(offset int) place {
	for ; c.offset < min(offset, len(c.data)); c.offset++ {
		switch b := c.data[c.offset]; {
		case b == '\n':
			c.place.line++
			c.place.column = 1
		case utf8.RuneStart(b):
			c.place.column++
		}
	}

	return c.place
}
