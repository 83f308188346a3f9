package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"unicode/utf8"
)

// readJSON accepts the same input as encoding/json, and records the place of each value.
func readJSON(data []byte) (*node, error) {
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

func (r *jsonReader) value(depth int) (*node, error) {
	tok, at, err := r.next()
	if err != nil {
		return nil, err
	}
	n := &node{place: at}
	switch tok := tok.(type) {
	case nil:
		n.kind = kindNull
	case bool:
		n.kind, n.boolean = kindBoolean, tok
	case string:
		n.kind, n.text = kindText, tok
	case json.Number:
		n.kind, n.text = kindNumber, tok.String()
		if n.number, err = tok.Float64(); err != nil {
			return nil, syntaxErrorf(at, "number %s is out of range", tok)
		}
		if i, err := strconv.ParseInt(tok.String(), 10, 64); err == nil {
			n.kind, n.integer = kindInteger, i
		}
	case json.Delim:
		if depth > maxDepth {
			return nil, syntaxErrorf(at, "nested deeper than %d levels", maxDepth)
		}
		return n, r.collection(n, tok, depth)
	}
	return n, nil
}

func (r *jsonReader) collection(n *node, open json.Delim, depth int) error {
	n.kind = kindList
	if open == '{' {
		n.kind = kindMapping
	}
	for r.dec.More() {
		var e entry
		if n.kind == kindMapping {
			tok, at, err := r.next()
			if err != nil {
				return err
			}
			e.key, _ = tok.(string)
			e.place = at
		}
		v, err := r.value(depth + 1)
		if err != nil {
			return err
		}
		if n.kind == kindList {
			n.items = append(n.items, v)
			continue
		}
		e.value = v
		n.entries = append(n.entries, e)
	}
	_, _, err := r.next()
	return err
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
