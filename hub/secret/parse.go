package secret

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
)

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
