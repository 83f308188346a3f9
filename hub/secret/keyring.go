package secret

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
)

// Errors of [Keyring.Open].
var (
	ErrUnknownKey = errors.New("sealed with a key that is not in the keyring")
	ErrCorrupt    = errors.New("sealed value is damaged or belongs to another place")
)

const (
	keySize = 32
	version = 1
	idSize  = 8
	header  = 1 + idSize

	// Overhead is the difference in bytes between a sealed value and its plain text.
	Overhead = header + 12 + 16 // nonce and tag
)

// Keyring holds the keys. It is safe for concurrent use.
type Keyring struct {
	keys []key
}

// key has its cipher in closures, so that a printer of unexported fields cannot reach it.
type key struct {
	header [header]byte
	aead   func() cipher.AEAD
	mac    func(purpose string) hash.Hash
}

func newKey(raw []byte) (key, error) {
	if len(raw) != keySize {
		return key{}, fmt.Errorf("has %d bytes, not %d", len(raw), keySize)
	}
	block, err := aes.NewCipher(raw)
	if err != nil {
		return key{}, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return key{}, err
	}
	prk, err := hkdf.Extract(sha256.New, raw, nil)
	if err != nil {
		return key{}, err
	}
	k := key{aead: func() cipher.AEAD { return aead }, mac: func(purpose string) hash.Hash { return newMAC(prk, purpose) }}
	k.header[0] = version
	id := sha256.Sum256(append([]byte("agenthost key id\x00"), raw...))
	copy(k.header[1:], id[:])
	return k, nil
}

// Seal encrypts plain, bound to aad, with the first key. The result is Overhead bytes longer than
// plain.
func (r *Keyring) Seal(plain, aad []byte) []byte {
	k := r.keys[0]
	out := make([]byte, header, Overhead+len(plain))
	copy(out, k.header[:])
	return k.aead().Seal(out, nil, plain, k.bind(aad)) //nolint:gosec // the AEAD makes the nonce
}

// Open decrypts a value that Seal returned for the same aad. The error is [ErrUnknownKey] if it was
// sealed with a key that is not in the ring, and [ErrCorrupt] if it was changed, truncated, never
// sealed, or sealed with another aad.
func (r *Keyring) Open(sealed, aad []byte) ([]byte, error) {
	if len(sealed) < Overhead || sealed[0] != version {
		return nil, fmt.Errorf("open secret: %w", ErrCorrupt)
	}
	for _, k := range r.keys {
		if [header]byte(sealed) != k.header {
			continue
		}
		plain, err := k.aead().Open(nil, nil, sealed[header:], k.bind(aad))
		if err != nil {
			return nil, fmt.Errorf("open secret: %w", ErrCorrupt)
		}
		return plain, nil
	}
	return nil, fmt.Errorf("open secret: %w", ErrUnknownKey)
}

// Reseal returns a value that is sealed again, with the first key and for aad, or nil if it was
// sealed with that one and for aad. former is the aad of an earlier version of the program, or nil.
// The error is that of [Keyring.Open].
func (r *Keyring) Reseal(sealed, aad, former []byte) ([]byte, error) {
	plain, err := r.Open(sealed, aad)
	if err == nil && [header]byte(sealed) == r.keys[0].header {
		return nil, nil
	}
	if err != nil && former != nil {
		if old, formerErr := r.Open(sealed, former); formerErr == nil {
			plain, err = old, nil
		}
	}
	if err != nil {
		return nil, err
	}
	return r.Seal(plain, aad), nil
}

// Rebind returns a value for aad that was sealed for former, the aad of an earlier version of the
// program. It returns nil if the value was not sealed for former with a key of the ring.
func (r *Keyring) Rebind(sealed, aad, former []byte) ([]byte, error) {
	plain, err := r.Open(sealed, former)
	if err != nil {
		return nil, nil //nolint:nilerr // it is not for this call
	}
	return r.Seal(plain, aad), nil
}

// bind adds the header to the authenticated data.
func (k key) bind(aad []byte) []byte {
	return append(k.header[:len(k.header):len(k.header)], aad...)
}

// AAD returns the associated data for the place of a sealed value, and for the other values that it
// is bound to, such as its tenant. Each part is preceded by its length.
func AAD(table, column, row string, bound ...string) []byte {
	var out []byte
	for _, part := range append([]string{table, column, row}, bound...) {
		out = binary.AppendUvarint(out, uint64(len(part)))
		out = append(out, part...)
	}
	return out
}
