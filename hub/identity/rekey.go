package identity

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
)

// Rekey seals the signing keys with the first key of the keyring, and returns how many another one had sealed.
func (s *Service) Rekey(ctx context.Context) (n int, err error) {
	err = s.db.Tx(ctx, func(tx *sql.Tx) error {
		n = 0 // the function may run again
		// Nobody makes a key meanwhile.
		if _, err := tx.ExecContext(ctx, `UPDATE instance SET value = value WHERE name = $1`, instanceID); err != nil {
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
			sealed := s.cfg.Keyring.Seal(plain, keyPlace(k.id))
			_, err = tx.ExecContext(ctx, `UPDATE signing_keys SET private_sealed = $1 WHERE id = $2`, sealed, k.id)
			if err != nil {
				return err
			}
			n++
		}
		return nil
	})
	return n, fault("rekey", err)
}

// sealedKey is the private part of a signing key as the database has it.
type sealedKey struct {
	id     string
	sealed []byte
}

// staleKeys are those that another key than the first has sealed.
func (s *Service) staleKeys(ctx context.Context, tx *sql.Tx) ([]sealedKey, error) {
	all, err := collect(ctx, tx, "read signing keys", func(row scanner) (k sealedKey, err error) {
		err = row.Scan(&k.id, &k.sealed)
		return k, err
	}, `SELECT id, private_sealed FROM signing_keys`)
	return slices.DeleteFunc(all, func(k sealedKey) bool { return !s.cfg.Keyring.Stale(k.sealed) }), err
}
