// Package instant has the JSON form of a time.
package instant

import "time"

const layout = "2006-01-02T15:04:05.000000Z"

// The first and the last time that RFC 3339 has a form for.
var (
	first = time.Date(1, time.January, 1, 0, 0, 0, 0, time.UTC)
	last  = time.Date(9999, time.December, 31, 23, 59, 59, 999_999_000, time.UTC)
)

// Format returns a time in the form of RFC 3339, in UTC with six digits of the second. The digits
// after them are dropped, so that the texts sort in the order of the times. A time outside the
// years 1 to 9999 is the nearest one inside.
func Format(t time.Time) string {
	t = t.UTC()
	switch {
	case t.Before(first):
		t = first
	case t.After(last):
		t = last
	}

	return t.Format(layout)
}
