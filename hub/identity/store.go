package identity

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"time"
)

// now returns the current time in microseconds, as it is stored.
func (s *Service) now() time.Time { return s.cfg.Now().UTC().Truncate(time.Microsecond) }

// newToken returns a token of 256 random bits, and the hash that is stored.
func newToken(prefix string) (raw string, hash []byte) {
	var b [32]byte
	rand.Read(b[:])
	raw = prefix + hex.EncodeToString(b[:])
	return raw, hashToken(raw)
}

// hashToken returns the form in which a token is stored. It needs no salt and no stretching: a
// token has 256 bits.
func hashToken(raw string) []byte {
	h := sha256.Sum256([]byte(raw))
	return h[:]
}
