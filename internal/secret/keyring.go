// Package secret encrypts values that a server must store and that a reader of its database must
// not see: provider keys, client secrets, signing keys.
//
// A [Keyring] has one or more keys of 32 bytes. The first one encrypts, all of them decrypt. To
// replace a key, the new key is put before the old one, all values are encrypted again
// with [Keyring.Reseal], and the old key is removed. A sealed value is bound to its place: [AAD]
// identifies table, column and row, and other values of the row such as its tenant. A value that
// was copied to another row, or whose row has another tenant now, cannot be decrypted.
//
//	ring, err := secret.Parse(keys...) // base64
//	sealed := ring.Seal(apiKey, secret.AAD("clients", "secret_enc", id, tenantID))
//	apiKey, err := ring.Open(sealed, secret.AAD("clients", "secret_enc", id, tenantID))
//
// Sealed values are AES-256-GCM with a random nonce:
//
//	version (1 byte, 1) | key id (8 bytes) | nonce (12 bytes) | ciphertext | tag (16 bytes)
//
// The key id is the start of a hash of the key and does not reveal the key. Version and key id are
// authenticated with the associated data. A random nonce of 96 bits is safe for 2^32 values under
// one key: one each second for 136 years.
//
// Keys are never printed: not by fmt with any verb, not by encoding/json or log/slog, and not in an
// error.
package secret

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"log/slog"
	"slices"
	"strings"
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
	return k.aead().Seal(out, nil, plain, k.bind(aad)) // the AEAD makes the nonce
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
// sealed with that one and for aad. former are the aads of earlier versions of the program. The
// error is that of [Keyring.Open].
func (r *Keyring) Reseal(sealed, aad []byte, former ...[]byte) ([]byte, error) {
	plain, err := r.Open(sealed, aad)
	if err == nil && [header]byte(sealed) == r.keys[0].header {
		return nil, nil
	}

	if err != nil {
		if fresh, _ := r.Rebind(sealed, aad, former...); fresh != nil {
			return fresh, nil
		}

		return nil, err
	}

	return r.Seal(plain, aad), nil
}

// Rebind returns a value for aad that was sealed for one of former, the aads of earlier versions of
// the program. It returns nil if the value was not sealed for them with a key of the ring.
func (r *Keyring) Rebind(sealed, aad []byte, former ...[]byte) ([]byte, error) {
	for _, old := range former {
		if plain, err := r.Open(sealed, old); err == nil {
			return r.Seal(plain, aad), nil
		}
	}

	return nil, nil
}

// KeyID returns the id of the key with which a value was sealed, in hex, or "" for a value that was
// never sealed.
func KeyID(sealed []byte) string {
	if len(sealed) < Overhead || sealed[0] != version {
		return ""
	}

	return hex.EncodeToString(sealed[1:header])
}

// Has reports whether a key of the ring has the id.
func (r *Keyring) Has(id string) bool {
	return slices.ContainsFunc(r.keys, func(k key) bool { return hex.EncodeToString(k.header[1:]) == id })
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

// how describes how to generate a key.
const how = "generate one with `openssl rand -base64 32`"

// Parse returns a keyring of one or more keys, each of which is the base64 form of 32 bytes. The
// first one encrypts. An error names a key only by its position.
func Parse(keys ...string) (*Keyring, error) {
	raw := make([][]byte, len(keys))
	for i, text := range keys {
		text = strings.TrimSpace(text)
		if text == "" {
			return nil, fmt.Errorf("parse keyring: key %d is empty: %s", i+1, how)
		}

		var err error
		if raw[i], err = base64.StdEncoding.Strict().DecodeString(text); err != nil {
			return nil, fmt.Errorf("parse keyring: key %d is not base64: %s", i+1, how)
		}
	}

	ring, err := New(raw...)
	if err != nil {
		return nil, fmt.Errorf("parse keyring: %w: %s", err, how)
	}

	return ring, nil
}

// New returns a keyring of one or more keys of 32 bytes each, all of them different. The first one
// encrypts.
func New(keys ...[]byte) (*Keyring, error) {
	ring := &Keyring{}
	for i, raw := range keys {
		k, err := newKey(raw)
		if err != nil {
			return nil, fmt.Errorf("key %d %w", i+1, err)
		}

		if same := slices.IndexFunc(ring.keys, func(o key) bool { return o.header == k.header }); same >= 0 {
			return nil, fmt.Errorf("key %d is the same as key %d", i+1, same+1)
		}

		ring.keys = append(ring.keys, k)
	}

	if len(ring.keys) == 0 {
		return nil, errors.New("no key is given")
	}

	return ring, nil
}

// Generate returns a new random key in the form that [Parse] reads.
func Generate() string {
	raw := make([]byte, keySize)
	_, _ = rand.Read(raw) // it never fails
	return base64.StdEncoding.EncodeToString(raw)
}

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
