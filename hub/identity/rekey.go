package identity

import (
	"context"
	"database/sql"
	"fmt"
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
		for id, sealed := range stale {
			plain, err := s.cfg.Keyring.Open(sealed, keyPlace(id))
			if err != nil {
				return fmt.Errorf("signing key %s: %w", id, err)
			}
			_, err = tx.ExecContext(ctx, `UPDATE signing_keys SET private_sealed = $1 WHERE id = $2`, s.cfg.Keyring.Seal(plain, keyPlace(id)), id)
			if err != nil {
				return err
			}
			n++
		}
		return nil
	})
	return n, fault("rekey", err)
}

// staleKeys are the sealed keys, by id, that another key than the first has sealed.
func (s *Service) staleKeys(ctx context.Context, tx *sql.Tx) (map[string][]byte, error) {
	rows, err := tx.QueryContext(ctx, `SELECT id, private_sealed FROM signing_keys`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	stale := map[string][]byte{}
	for rows.Next() {
		var id string
		var sealed []byte
		if err := rows.Scan(&id, &sealed); err != nil {
			return nil, err
		}
		if s.cfg.Keyring.Stale(sealed) {
			stale[id] = sealed
		}
	}
	return stale, rows.Err()
}
