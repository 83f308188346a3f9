package identity

import (
	"context"
	"database/sql"
	"fmt"

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
		all, err := sealedKeys(ctx, tx)
		if err != nil {
			return err
		}
		for _, k := range all {
			k.sealed, err = s.cfg.Keyring.Reseal(k.sealed, keyPlace(k.id), nil)
			if err != nil {
				return fmt.Errorf("signing key %s: %w", k.id, err)
			}
			if k.sealed == nil {
				continue
			}
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
