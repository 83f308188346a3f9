package jsonlimit

import (
	"bytes"
	"iter"
)

// Elements returns the elements of a JSON array, whose syntax is valid. Nothing is copied.
func Elements(data []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		depth, begin, quoted := 0, 1, false
		for i := 0; i < len(data); i++ {
			switch c := data[i]; {
			case quoted && c == '\\':
				i++
			case c == '"':
				quoted = !quoted
			case quoted:
			case c == '{', c == '[':
				depth++
			case depth == 1 && (c == ',' || c == ']'):
				element := bytes.TrimSpace(data[begin:i])
				if begin = i + 1; len(element) > 0 && !yield(element) {
					return
				}
			case c == '}', c == ']':
				depth--
			}
		}
	}
}

// List is an array. An element that cannot be decoded is omitted, and hides no other.
type List[T any] struct {
	Items   []T
	Omitted []error // why, in the order of the elements
}

// UnmarshalJSON decodes an array.
func (l *List[T]) UnmarshalJSON(data []byte) error {
	*l = List[T]{}
	switch {
	case string(data) == "null":
		return nil
	case data[0] != '[':
		return &Error{Message: "must be an array"}
	}

	l.Items = []T{}
	for raw := range Elements(data) {
		var one T
		if err := Unmarshal(raw, &one); err != nil {
			l.Omitted = append(l.Omitted, err)
			continue
		}

		l.Items = append(l.Items, one)
	}

	return nil
}
