// Package wire has the JSON types of the hub's API and its error codes, once for the hub and its
// clients. The names of the types are those of the schemas in openapi.yaml. What agents contain is
// defined by the runtime: those fields have the types of runtime/agent and runtime/wire, so that a
// new field of a sandbox or a subagent is declared once. Values that may be secrets are strings
// here: the secrets of runtime/agent have the form of a configuration file.
package wire

import (
	"database/sql/driver"
	"fmt"
	"time"

	"github.com/seed93082962/agenthost/internal/leaf/instant"
)

// Time is a time in the JSON form of the hub: RFC 3339 in UTC with six sub-second digits, truncated
// to microseconds. The zero time is null. In the database it is microseconds since 1970, or NULL.
// A stored time outside the years 1 to 9999 is encoded as the nearest one inside.
type Time struct{ time.Time }

// Scan implements sql.Scanner.
func (t *Time) Scan(src any) error {
	*t = Time{}
	switch src := src.(type) {
	case nil:
	case int64:
		t.Time = time.UnixMicro(src).UTC()
	default:
		return fmt.Errorf("read time: %T is not a number of microseconds", src)
	}

	return nil
}

// Value implements driver.Valuer.
func (t Time) Value() (driver.Value, error) {
	if t.IsZero() {
		return nil, nil
	}

	return t.UnixMicro(), nil
}

// String returns the JSON form without quotes, or "" for the zero time.
func (t Time) String() string {
	if t.IsZero() {
		return ""
	}

	return instant.Format(t.Time)
}

// MarshalJSON returns a string or null.
func (t Time) MarshalJSON() ([]byte, error) {
	if t.IsZero() {
		return []byte("null"), nil
	}

	return []byte(`"` + t.String() + `"`), nil
}
