package secret

import (
	"fmt"
	"io"
	"log/slog"
)

// String tells how many keys there are, and nothing of them.
func (r *Keyring) String() string {
	if r == nil {
		return "keyring(nil)"
	}
	return fmt.Sprintf("keyring(%d keys)", len(r.keys))
}

// Format is String for every verb.
func (r *Keyring) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, r.String()) }

// MarshalText is String, also in JSON.
func (r *Keyring) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// LogValue is String in logs.
func (r *Keyring) LogValue() slog.Value { return slog.StringValue(r.String()) }
