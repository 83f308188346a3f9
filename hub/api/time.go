package api

import "time"

// timeLayout always has six digits, so that texts sort as times do.
const timeLayout = "2006-01-02T15:04:05.000000Z"

// Time is a time as all JSON of the hub has it: RFC 3339 in UTC with six sub-second digits, and null for the zero time, which
// is one that never was. What is finer than a microsecond is cut off.
type Time time.Time

// String is the time as JSON has it, without the quotes; "" for the zero time.
func (t Time) String() string {
	if t.IsZero() {
		return ""
	}
	return time.Time(t).UTC().Format(timeLayout)
}

// IsZero has omitzero leave a time out that never was.
func (t Time) IsZero() bool { return time.Time(t).IsZero() }

// MarshalJSON writes a string, or null.
func (t Time) MarshalJSON() ([]byte, error) {
	if t.IsZero() {
		return []byte("null"), nil
	}
	return []byte(`"` + t.String() + `"`), nil
}
