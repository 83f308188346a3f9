package api

import "time"

// timeLayout always has six digits, so that the texts sort in the order of the times.
const timeLayout = "2006-01-02T15:04:05.000000Z"

// Time is a time in the JSON form of the hub: RFC 3339 in UTC with six sub-second digits, truncated
// to microseconds. The zero time is null.
type Time time.Time

// String returns the JSON form without quotes, or "" for the zero time.
func (t Time) String() string {
	if t.IsZero() {
		return ""
	}
	return time.Time(t).UTC().Format(timeLayout)
}

// IsZero reports whether t is the zero time, which omitzero omits.
func (t Time) IsZero() bool { return time.Time(t).IsZero() }

// MarshalJSON returns a string or null.
func (t Time) MarshalJSON() ([]byte, error) {
	if t.IsZero() {
		return []byte("null"), nil
	}
	return []byte(`"` + t.String() + `"`), nil
}
