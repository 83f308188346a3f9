package secret

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"hash"
)

// MAC returns an HMAC-SHA-256 of message with a key that is derived from the first key for that
// purpose. It is for values that clients return, such as links, and reveals nothing about the keys.
func (r *Keyring) MAC(purpose string, message []byte) []byte { return r.keys[0].sum(purpose, message) }

// VerifyMAC reports whether any key of the ring made the MAC.
func (r *Keyring) VerifyMAC(purpose string, message, mac []byte) bool {
	valid := false
	for _, k := range r.keys {
		valid = hmac.Equal(k.sum(purpose, message), mac) || valid
	}
	return valid
}

func (k key) sum(purpose string, message []byte) []byte {
	h := k.mac(purpose)
	h.Write(message)
	return h.Sum(nil)
}

// newMAC derives the key of a purpose with HKDF (RFC 5869).
func newMAC(prk []byte, purpose string) hash.Hash {
	derived, err := hkdf.Expand(sha256.New, prk, purpose, sha256.Size)
	if err != nil { // only for a length above 255 hashes
		panic(fmt.Sprintf("derive key: %v", err))
	}
	return hmac.New(sha256.New, derived)
}
