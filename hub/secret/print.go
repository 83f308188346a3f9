package secret

import (
	"fmt"
	"io"
	"log/slog"
)

// String returns the number of keys.
func (r *Keyring) String() string {
	if r == nil {
		return "keyring(nil)"
	}
	return fmt.Sprintf("keyring(%d keys)", len(r.keys))
}

// Format writes String for every verb.
func (r *Keyring) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, r.String()) }

// MarshalText returns String, which is also the JSON form.
func (r *Keyring) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// LogValue returns String.
func (r *Keyring) LogValue() slog.Value { return slog.StringValue(r.String()) }
