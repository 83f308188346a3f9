// Package jsonlimit bounds JSON of others before it is decoded, since encoding/json bounds only the
// depth. A list of {} takes a hundred times its size as a slice of structs.
package jsonlimit

import (
	"bytes"
	"errors"

	"github.com/go-json-experiment/json/jsontext"
)

// ErrExceeded is the error of JSON that exceeds a limit.
var ErrExceeded = errors.New("the JSON nests too deeply or has too many values")

// Limit bounds the objects, arrays and elements of JSON.
type Limit struct {
	Values int // arrays, objects, and their elements
	Depth  int // of nesting; 0 is no limit
}

// Check returns ErrExceeded if data exceeds the limit. It does not check the syntax. It reads data
// once, and not at all if it has fewer bytes than a limit.
func (l Limit) Check(data []byte) error {
	if len(data) <= l.Values && (l.Depth == 0 || len(data) <= l.Depth) {
		return nil
	}

	_, err := l.Count(data)
	return err
}

// Count returns the number of objects, arrays and elements of JSON, and ErrExceeded if data exceeds
// the limit.
func (l Limit) Count(data []byte) (int, error) {
	depth, quoted := 0, false
	var values int
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == ',':
			values++
		case c == '{' || c == '[':
			values++
			depth++
		case c == '}' || c == ']':
			depth--
		}

		if values > l.Values || l.Depth > 0 && depth > l.Depth {
			return values, ErrExceeded
		}
	}

	return values, nil
}

// Compact returns the JSON of data without white space, in memory of its own, for values that no
// type describes. It fails if data exceeds the limit or is not JSON, or if an object has a name
// twice. Bytes that are not UTF-8 become U+FFFD.
func (l Limit) Compact(data []byte) ([]byte, error) {
	if err := l.Check(data); err != nil {
		return nil, err
	}

	value := jsontext.Value(bytes.ToValidUTF8(data, []byte("\uFFFD")))
	if err := value.Compact(jsontext.AllowDuplicateNames(false)); err != nil {
		return nil, describe(err)
	}

	return value, nil
}
