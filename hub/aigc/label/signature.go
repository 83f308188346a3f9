package label

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Errors of [Label.Verify].
var (
	ErrUnsigned   = errors.New("label has no signature")
	ErrMalformed  = errors.New("signature of the label is malformed")
	ErrUnknownKey = errors.New("label is signed with an unknown key")
	ErrMismatch   = errors.New("signature does not match the label")
)

// MinSecret is the smallest secret of a [Key] in bytes: the output of its hash.
const MinSecret = sha256.Size

// Key signs labels with HMAC-SHA256.
type Key struct {
	ID     string // ^[A-Za-z0-9_-]{1,64}$
	secret []byte
}

var keyID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// NewKey returns a key. It fails if the id does not have the form of [Key].ID or the secret is
// shorter than [MinSecret].
func NewKey(id string, secret []byte) (Key, error) {
	if !keyID.MatchString(id) {
		return Key{}, fmt.Errorf("label key id %q: must be 1 to 64 letters, digits, - and _", id)
	}
	if len(secret) < MinSecret {
		return Key{}, fmt.Errorf("label key %s: the secret has %d bytes, at least %d are required", id, len(secret), MinSecret)
	}
	return Key{ID: id, secret: secret}, nil
}

// String returns the id: a key never prints its secret.
func (k Key) String() string { return k.ID }

// GoString is String, for %#v.
func (k Key) GoString() string { return k.ID }

const signatureVersion = "v1"

func (k Key) sum(l Label) []byte {
	mac := hmac.New(sha256.New, k.secret)
	mac.Write(l.signed())
	return mac.Sum(nil)
}

// Sign returns the label with the signature of the producer's fields as its ReservedCode1. The
// propagator fields are not signed: a later propagator replaces them.
func (l Label) Sign(k Key) Label {
	l.ReservedCode1 = signatureVersion + "." + k.ID + "." + base64.RawURLEncoding.EncodeToString(k.sum(l))
	return l
}

// KeyID returns the id of the key that signed the label, or "" if the label has no well-formed
// signature.
func (l Label) KeyID() string {
	id, _, _ := l.signature()
	return id
}

func (l Label) signature() (kid string, sum []byte, err error) {
	if l.ReservedCode1 == "" {
		return "", nil, ErrUnsigned
	}
	parts := strings.Split(l.ReservedCode1, ".")
	if len(parts) != 3 || parts[0] != signatureVersion || !keyID.MatchString(parts[1]) {
		return "", nil, ErrMalformed
	}
	sum, err = base64.RawURLEncoding.DecodeString(parts[2])
	// DecodeString ignores line breaks and unused bits. Only one text is accepted for a signature.
	if err != nil || len(sum) != sha256.Size || base64.RawURLEncoding.EncodeToString(sum) != parts[2] {
		return "", nil, ErrMalformed
	}
	return parts[1], sum, nil
}

// Verify returns nil if one of the keys signed the label and the producer's fields are unchanged
// since. Its errors are [ErrUnsigned], [ErrMalformed], [ErrUnknownKey] and [ErrMismatch].
func (l Label) Verify(keys ...Key) error {
	kid, sum, err := l.signature()
	if err != nil {
		return err
	}
	for _, k := range keys {
		if k.ID == kid {
			if !hmac.Equal(sum, k.sum(l)) {
				return ErrMismatch
			}
			return nil
		}
	}
	return ErrUnknownKey
}
