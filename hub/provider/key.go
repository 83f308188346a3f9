package provider

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/secret"
)

const (
	maxKey = 4096 // bytes

	// minMasked is the shortest key of which a masked form shows characters: with a shorter one,
	// they would be a considerable part of it.
	minMasked = 24
)

// KeyChange is what happens to the stored key. The zero value leaves it as it is. In JSON it is a
// string, which replaces the key unless it is empty, or null, which removes the key.
type KeyChange struct {
	Value  string
	Remove bool
}

// UnmarshalJSON implements json.Unmarshaler.
func (k *KeyChange) UnmarshalJSON(data []byte) error {
	*k = KeyChange{}
	if bytes.Equal(data, []byte("null")) {
		k.Remove = true
		return nil
	}
	if err := json.Unmarshal(data, &k.Value); err != nil {
		return errors.New("apiKey must be a string or null") // that of encoding/json may quote the key
	}
	return nil
}

// place binds the key of a provider to its tenant and its base URL: a key is not sent to another
// address because someone changed the row.
func (p provider) place() []byte {
	return secret.AAD("providers", "api_key_enc", p.ID, p.TenantID, p.BaseURL)
}

// formerPlace is the place of keys that earlier versions sealed.
func (p provider) formerPlace() []byte { return secret.AAD("providers", "api_key_enc", p.ID) }

// seal sets the key of a provider whose base URL is set.
func (s *Service) seal(p *provider, key string) {
	p.SealedKey = s.cfg.Keyring.Seal([]byte(key), p.place())
}

// open returns the key of a provider, or "" if it has none.
func (s *Service) open(p provider) (string, error) {
	if p.SealedKey == nil {
		return "", nil
	}
	key, err := s.cfg.Keyring.Open(p.SealedKey, p.place())
	return string(key), err
}

// usableKey is open with an error for the user.
func (s *Service) usableKey(p provider) (string, error) {
	key, err := s.open(p)
	if err != nil {
		return "", &api.Error{Code: api.Conflict, Message: "The stored key of provider " + p.Name + " cannot be opened: enter the key again.", Cause: err}
	}
	return key, nil
}

// describeKey returns the masked key of a provider and its state.
func (s *Service) describeKey(p provider) (masked, state string) {
	key, err := s.open(p)
	switch {
	case err != nil:
		return "", KeyUnreadable
	case key != "":
		return mask(key), KeyReady
	case p.AuthStyle == AuthNone:
		return "", KeyNotRequired
	}
	return "", KeyMissing
}

// mask returns the first and the last four characters of a long key, and none of a short one.
func mask(key string) string {
	if len(key) < minMasked {
		return "****"
	}
	return key[:4] + "..." + key[len(key)-4:]
}
