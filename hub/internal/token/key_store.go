package token

import (
	"context"
	"time"

	"github.com/seed93082962/agenthost/hub/internal/store"

	"github.com/seed93082962/agenthost/internal/db"
)

// The signing keys belong to the whole hub: they have no tenant.

// hubRow is the row of the instance table with the id of the hub, the issuer of access tokens.
const hubRow = "id"

// insertInstance stores the id of the hub, unless it is stored, and returns it.
func insertInstance(ctx context.Context, tx *store.Tx, id string) (string, error) {
	_, err := tx.ExecContext(ctx, `INSERT INTO instance (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING`, hubRow, id)
	var stored string
	if err == nil {
		err = tx.QueryRowContext(ctx, `SELECT value FROM instance WHERE name = $1`, hubRow).Scan(&stored)
	}

	return stored, err
}

// lockKeys makes the transaction wait for all others that change the signing keys.
func lockKeys(ctx context.Context, tx *store.Tx) error {
	return db.Exec(ctx, tx, "lock signing keys", `UPDATE instance SET value = value WHERE name = $1`, hubRow)
}

// currentKey returns the id of the key that signs, or "".
func currentKey(ctx context.Context, q db.Querier) (string, error) {
	return db.Value[string](ctx, q, "read signing key", `SELECT COALESCE((SELECT id FROM signing_keys WHERE retired_at IS NULL), '')`)
}

// readKeys returns all keys.
func readKeys(ctx context.Context, q db.Querier, scan func(db.Scanner) (signingKey, error)) ([]signingKey, error) {
	return db.Collect(ctx, q, "read signing keys", scan,
		`SELECT id, public_key, private_sealed, created_at, retired_at, expires_at FROM signing_keys`)
}

// retireKey marks the key as retired: it signs no more tokens, and verifies them for keyGrace.
func retireKey(ctx context.Context, tx *store.Tx, id string, now time.Time) error {
	return db.Exec(ctx, tx, "retire signing key",
		`UPDATE signing_keys SET retired_at = $1, expires_at = $2 WHERE id = $3 AND retired_at IS NULL`,
		db.Micros(now), db.Micros(now.Add(keyGrace)), id)
}

// insertFirstKey stores a key as the one that signs, unless there is one.
func insertFirstKey(ctx context.Context, tx *store.Tx, key signingKey, now time.Time) error {
	return db.Exec(ctx, tx, "insert signing key", `INSERT INTO signing_keys (id, public_key, private_sealed, created_at)
		SELECT $1, $2, $3, $4 WHERE NOT EXISTS (SELECT 1 FROM signing_keys WHERE retired_at IS NULL)`,
		key.id, []byte(key.public), key.sealed, db.Micros(now))
}

// deleteKeys deletes all keys and returns their ids.
func deleteKeys(ctx context.Context, tx *store.Tx) ([]string, error) {
	return db.Values[string](ctx, tx, "delete signing keys", `DELETE FROM signing_keys RETURNING id`)
}

// deleteExpired deletes the keys whose tokens have expired.
func deleteExpired(ctx context.Context, q db.Querier, now time.Time) error {
	return db.Exec(ctx, q, "delete signing keys", `DELETE FROM signing_keys WHERE expires_at < $1`, db.Micros(now))
}
