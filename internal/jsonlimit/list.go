package jsonlimit

// List is an array. An element that cannot be decoded is omitted, and hides no other.
type List[T any] struct {
	Items   []T
	Omitted []error // why, in the order of the elements
}

// UnmarshalJSON decodes an array.
func (l *List[T]) UnmarshalJSON(data []byte) error {
	*l = List[T]{}
	var all []element
	if err := Unmarshal(data, &all); err != nil || all == nil {
		return err
	}
	l.Items = make([]T, 0, len(all))
	for _, raw := range all {
		var one T
		if err := Unmarshal(raw, &one); err != nil {
			l.Omitted = append(l.Omitted, err)
			continue
		}
		l.Items = append(l.Items, one)
	}
	return nil
}

// element is an undecoded element. It refers to the array.
type element []byte

// UnmarshalJSON implements json.Unmarshaler.
func (e *element) UnmarshalJSON(data []byte) error {
	*e = data
	return nil
}
