package identity

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed93082962/agenthost/hub/store"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/db"
	"github.com/seed93082962/agenthost/hub/secret"
)

// RetireKey replaces the key that signs access tokens and deletes all former ones, so that every
// token they signed is rejected: by this process immediately, by the others within 2 seconds.
// Sessions continue with their next refresh. It fails with [secret.ErrUnknownKey] if the current
// key is sealed with a key that the keyring lacks: the other processes could not open the new one.
func (s *Service) RetireKey(ctx context.Context) error {
	key, err := newKey(s.store.Keyring)
	if err != nil {
		return err
	}
	err = s.store.Change(ctx, store.Change{}, func(tx *store.Tx) error {
		if err := lockKeys(ctx, tx); err != nil {
			return err
		}
		if err := s.checkKeyring(ctx, tx); err != nil {
			return err
		}
		former, err := deleteKeys(ctx, tx)
		if err != nil {
			return err
		}
		if err := insertFirstKey(ctx, tx, key, s.store.Now()); err != nil {
			return db.Wrap("store signing key", err)
		}
		e := auditlog.Event{TenantID: SystemTenant, TargetType: targetKey, TargetID: key.id}
		tx.Record(actionRetireKey.Record(e, retireKeyDetail{former}))
		return nil
	})
	if err != nil {
		return fmt.Errorf("retire signing key: %w", err)
	}
	if s.keys != nil {
		return s.keys.load(ctx)
	}
	return nil
}

// checkKeyring fails if the current signing key is sealed with a key that the keyring lacks. A
// damaged key can be replaced.
func (s *Service) checkKeyring(ctx context.Context, tx *store.Tx) error {
	keys, err := readKeys(ctx, tx, (&keyStore{store: s.store}).scan)
	for _, key := range keys {
		if errors.Is(key.shut, secret.ErrUnknownKey) {
			return key.shut
		}
	}
	return err
}
