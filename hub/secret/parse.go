package secret

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// how tells how to make a key.
const how = "make one with `openssl rand -base64 32`"

// Parse reads one or more keys of 32 bytes in base64, separated by commas. The first seals. Its errors name a key by its
// position alone, and say how to make one.
func Parse(keys string) (*Keyring, error) {
	if strings.TrimSpace(keys) == "" {
		return nil, errors.New("parse keyring: there is no key: " + how)
	}
	var raw [][]byte
	for part := range strings.SplitSeq(keys, ",") {
		part = strings.TrimSpace(part)
		k, err := base64.StdEncoding.Strict().DecodeString(part)
		switch n := len(raw) + 1; {
		case part == "":
			return nil, fmt.Errorf("parse keyring: key %d is empty: %s", n, how)
		case err != nil:
			return nil, fmt.Errorf("parse keyring: key %d is not base64: %s", n, how)
		}
		raw = append(raw, k)
	}
	ring, err := New(raw...)
	if err != nil {
		return nil, fmt.Errorf("parse keyring: %w: %s", err, how)
	}
	return ring, nil
}

// New makes a keyring of one or more keys of 32 bytes each, all of them different. The first seals.
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
		return nil, errors.New("there is no key")
	}
	return ring, nil
}

// Generate makes a new key, in the form that [Parse] reads.
func Generate() string {
	raw := make([]byte, keySize)
	_, _ = rand.Read(raw) // it never fails
	return base64.StdEncoding.EncodeToString(raw)
}
