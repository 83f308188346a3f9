package token

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/internal/secret"
)

// Sweep rotates a signing key that is due, and deletes the expired ones.
func (k *Keys) Sweep(ctx context.Context) error {
	if err := k.renew(ctx); err != nil {
		return err
	}

	return deleteExpired(ctx, k.store.DB.Write(), k.store.Now())
}

// renew is reload, and rotates a signing key that is due.
func (k *Keys) renew(ctx context.Context) error {
	if err := k.reload(ctx); err != nil {
		return err
	}

	if _, due := k.due(); !due {
		return nil
	}

	if err := k.load(ctx); err != nil { // another replica may have rotated it
		return err
	}

	if former, due := k.due(); due {
		return k.rotate(ctx, former)
	}

	return nil
}

// due returns the id of the signing key, "" for none, and reports whether it must be rotated. A
// replica that cannot open the current key leaves the rotation to the other replicas, because they
// could not open a key that it sealed.
func (k *Keys) due() (string, bool) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.signing.id, k.shut == nil && !k.store.Now().Before(k.signing.created.Add(keyLife))
}

// newKey returns a key that is not stored yet.
func newKey(keyring *secret.Keyring) (signingKey, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return signingKey{}, fmt.Errorf("create signing key: %w", err)
	}

	id := ids.New()
	return signingKey{id: id, public: public, sealed: keyring.Seal(private.Seed(), sealedKey.Place(id))}, nil
}

// rotate retires the key with the id former and stores a new one. If another replica has done so
// already, its key is used. For the first key, former is "".
func (k *Keys) rotate(ctx context.Context, former string) error {
	key, err := newKey(k.store.Keyring)
	if err != nil {
		return err
	}

	err = k.store.Change(ctx, store.Change{}, func(tx *store.Tx) error {
		if err := lockKeys(ctx, tx); err != nil {
			return err
		}

		if former != "" {
			if err := retireKey(ctx, tx, former, k.store.Now()); err != nil {
				return err
			}
		}

		return insertFirstKey(ctx, tx, key, k.store.Now())
	})
	if err != nil {
		return db.Wrap("store signing key", err)
	}

	return k.load(ctx)
}

// actionRetireKey is the audit action of [Retire].
var actionRetireKey = auditlog.Define[retireKeyDetail]("auth.retire_key")

type retireKeyDetail struct {
	Retired []string `json:"retired"` // ids of the keys whose tokens are rejected
}

// Retire replaces the key that signs access tokens and deletes all former ones, so that every token
// they signed is rejected, by running hubs within 2 seconds. Sessions continue with their next
// refresh. It fails with [secret.ErrUnknownKey] if the current key is sealed with a key that the
// keyring lacks: the other processes could not open the new one. by has the tenant and the name of
// the operator, for the audit log.
func Retire(ctx context.Context, s *store.Store, by auditlog.Event) error {
	key, err := newKey(s.Keyring)
	if err != nil {
		return err
	}

	err = s.Change(ctx, store.Change{}, func(tx *store.Tx) error {
		if err := lockKeys(ctx, tx); err != nil {
			return err
		}

		if err := checkKeyring(ctx, tx, s); err != nil {
			return err
		}

		former, err := deleteKeys(ctx, tx)
		if err != nil {
			return err
		}

		if err := insertFirstKey(ctx, tx, key, tx.Now); err != nil {
			return db.Wrap("store signing key", err)
		}

		by.TargetType, by.TargetID = "signing_key", key.id
		tx.Record(actionRetireKey.Record(by, retireKeyDetail{Retired: former}))
		return nil
	})
	if err != nil {
		return fmt.Errorf("retire signing key: %w", err)
	}

	return nil
}

// Retire is the function [Retire], and takes effect in this process immediately.
func (k *Keys) Retire(ctx context.Context, by auditlog.Event) error {
	if err := Retire(ctx, k.store, by); err != nil {
		return err
	}

	return k.load(ctx)
}

// checkKeyring fails if the current signing key is sealed with a key that the keyring lacks. A
// damaged key can be replaced.
func checkKeyring(ctx context.Context, tx *store.Tx, s *store.Store) error {
	keys, err := readKeys(ctx, tx, (&Keys{store: s}).scan)
	for _, key := range keys {
		if errors.Is(key.shut, secret.ErrUnknownKey) {
			return key.shut
		}
	}

	return err
}
