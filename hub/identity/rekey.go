package identity

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/seed93082962/agenthost/hub/db"
)

// Rekey seals the signing keys with the first key of the keyring, and returns the number of keys
// that were sealed with another one.
func (s *Service) Rekey(ctx context.Context) (n int, err error) {
	err = s.db.Tx(ctx, func(tx *sql.Tx) error {
		n = 0 // the function may run again
		if err := lockKeys(ctx, tx); err != nil {
			return err
		}
		stale, err := s.staleKeys(ctx, tx)
		if err != nil {
			return err
		}
		for _, k := range stale {
			plain, err := s.cfg.Keyring.Open(k.sealed, keyPlace(k.id))
			if err != nil {
				return fmt.Errorf("signing key %s: %w", k.id, err)
			}
			k.sealed = s.cfg.Keyring.Seal(plain, keyPlace(k.id))
			if err := updateSealedKey(ctx, tx, k); err != nil {
				return err
			}
			n++
		}
		return nil
	})
	return n, db.Wrap("rekey", err)
}

// sealedKey is the private part of a signing key as it is stored.
type sealedKey struct {
	id     string
	sealed []byte
}

// staleKeys returns the keys that were not sealed with the first key of the keyring.
func (s *Service) staleKeys(ctx context.Context, tx *sql.Tx) ([]sealedKey, error) {
	all, err := sealedKeys(ctx, tx)
	return slices.DeleteFunc(all, func(k sealedKey) bool { return !s.cfg.Keyring.Stale(k.sealed) }), err
}
