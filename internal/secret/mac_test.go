package secret_test

import (
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/secret"
)

func TestTheFirstKeyMakesMACsAndAllVerify(t *testing.T) {
	old, both, fresh := ring(t, raw(1)), ring(t, raw(2), raw(1)), ring(t, raw(2))
	message := []byte("message")
	before, after := old.MAC("links", message), both.MAC("links", message)
	require.NotEqual(t, before, after)
	for name, row := range map[string]struct {
		ring *secret.Keyring
		mac  []byte
		want bool
	}{
		"before":               {old, before, true},
		"while both are there": {both, before, true},
		"made anew":            {both, after, true},
		"after":                {fresh, after, true},
		"a removed key":        {fresh, before, false},
		"a later key":          {old, after, false},
		"empty":                {both, nil, false},
		"truncated":            {both, after[:31], false},
		"longer":               {both, append(after[:32:32], 0), false},
	} {
		require.Equal(t, row.want, row.ring.VerifyMAC("links", message, row.mac), name)
	}
	require.False(t, both.VerifyMAC("cookies", message, after), "another purpose")
	require.False(t, both.VerifyMAC("links", []byte("other"), after))
}

// MACs that the first release made are valid in every later one: HKDF-SHA-256 without a salt, and
// the purpose as its info.
func TestFormatOfMACs(t *testing.T) {
	require.Equal(t, "c524d45b3d304bb0570e8ab3d93e4fac659f9e32226fb36e9f37b260c4cfc867", hex.EncodeToString(ring(t, raw(1)).MAC("links", []byte("message"))))
}
