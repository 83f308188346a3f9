package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/store"
	"github.com/seed93082962/agenthost/rbac"
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

// seal sets the key of a provider whose base URL is set.
func (s *Service) seal(p *provider, key string) {
	p.sealedKey = s.store.Keyring.Seal([]byte(key), sealedKey.Place(p.ID, p.tenantID, p.BaseURL))
}

// open returns the key of a provider, or "" if it has none.
func (s *Service) open(p provider) (string, error) {
	if p.sealedKey == nil {
		return "", nil
	}
	key, err := s.store.Keyring.Open(p.sealedKey, sealedKey.Place(p.ID, p.tenantID, p.BaseURL))
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

// mask returns the first and the last four characters of a long key, and none of a short one.
func mask(key string) string {
	if len(key) < minMasked {
		return "****"
	}
	return key[:4] + "..." + key[len(key)-4:]
}

// RevealedKey is the key of a provider.
type RevealedKey struct {
	APIKey string `json:"apiKey"`
}

// RevealKey returns the key of a provider. It fails with api.NotFound if it has none, and with
// api.Conflict if the key cannot be opened.
func (s *Service) RevealKey(ctx context.Context, caller api.Caller, id string) (RevealedKey, error) {
	var key string
	err := s.store.Change(ctx, store.Change{Caller: caller, Group: rbac.AdminWrite}, func(tx *store.Tx) error {
		p, err := find(ctx, tx, caller.TenantID, id)
		if err != nil {
			return err
		}
		if p.sealedKey == nil {
			return api.NotFound.New("The provider has no key.")
		}
		tx.Record(actionRevealKey.Record(p.event(caller.Event()), auditlog.None{}))
		key, err = s.usableKey(p)
		return err
	})
	if err != nil {
		return RevealedKey{}, err
	}
	return RevealedKey{key}, nil
}
