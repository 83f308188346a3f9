package aigc

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/seed93082962/agenthost/hub/db"
)

// keysOf returns the keys of the tenant, without their secrets, the newest first.
func keysOf(ctx context.Context, q db.Querier, tenantID string) ([]key, error) {
	return db.Collect(ctx, q, "list aigc keys", func(row db.Scanner) (key, error) {
		var (
			k       key
			created int64
			retired sql.NullInt64
		)
		err := row.Scan(&k.KID, &created, &retired)
		k.CreatedAt, k.RetiredAt = db.Time(created), db.NullTime(retired)
		return k, err
	}, `SELECT kid, created_at, retired_at FROM aigc_keys WHERE tenant_id = $1 ORDER BY created_at DESC, kid DESC`, tenantID)
}

// keyByID returns a key of the tenant, active or not, and false if there is none.
func keyByID(ctx context.Context, q db.Querier, tenantID, kid string) (key, bool, error) {
	k := key{KID: kid, tenantID: tenantID}
	err := q.QueryRowContext(ctx, `SELECT secret_enc FROM aigc_keys WHERE tenant_id = $1 AND kid = $2`, tenantID, kid).Scan(&k.sealed)
	if errors.Is(err, sql.ErrNoRows) {
		return key{}, false, nil
	}
	return k, err == nil, db.Wrap("read aigc key", err)
}

func insertKey(ctx context.Context, tx *sql.Tx, k key) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO aigc_keys (kid, tenant_id, secret_enc, created_at, signed) VALUES ($1, $2, $3, $4, FALSE)`,
		k.KID, k.tenantID, k.sealed, db.Micros(k.CreatedAt))
	return db.Wrap("insert aigc key", err)
}

// retireKey retires the active key of the locked tenant, or deletes it if it signed nothing, and
// returns its id, or "" if there is none.
func retireKey(ctx context.Context, tx *sql.Tx, tenantID string, now time.Time) (kid string, err error) {
	err = tx.QueryRowContext(ctx, `DELETE FROM aigc_keys WHERE tenant_id = $1 AND retired_at IS NULL AND NOT signed RETURNING kid`, tenantID).Scan(&kid)
	if errors.Is(err, sql.ErrNoRows) {
		err = tx.QueryRowContext(ctx, `UPDATE aigc_keys SET retired_at = $1 WHERE tenant_id = $2 AND retired_at IS NULL RETURNING kid`,
			db.Micros(now), tenantID).Scan(&kid)
	}
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return kid, db.Wrap("retire aigc key", err)
}

// markSigned records that a key is going to sign a label, so that it is never deleted. It reports
// whether the key still exists.
func markSigned(ctx context.Context, q db.Querier, k key) (bool, error) {
	n, err := db.Affected(ctx, q, "mark aigc key", `UPDATE aigc_keys SET signed = TRUE WHERE tenant_id = $1 AND kid = $2`, k.tenantID, k.KID)
	return n > 0, err
}

// countRotation counts a new key of the locked tenant. If there were maxRotations of them in
// rotationTime, it returns how long to wait.
func countRotation(ctx context.Context, tx *sql.Tx, tenantID string, now time.Time) (wait time.Duration, err error) {
	var n, since int64
	err = tx.QueryRowContext(ctx, `UPDATE aigc_configs SET
			rotations = CASE WHEN rotations_since > $1 AND rotations_since <= $2 THEN rotations + 1 ELSE 1 END,
			rotations_since = CASE WHEN rotations_since > $1 AND rotations_since <= $2 THEN rotations_since ELSE $2 END
		WHERE tenant_id = $3 RETURNING rotations, rotations_since`, db.Micros(now.Add(-rotationTime)), db.Micros(now), tenantID).Scan(&n, &since)
	if err != nil || n <= maxRotations {
		return 0, db.Wrap("count rotations", err)
	}
	return db.Time(since).Add(rotationTime).Sub(now), nil
}

// sealedKeys returns up to limit keys of all tenants, in the order of their ids, after the given
// one.
func sealedKeys(ctx context.Context, q db.Querier, after string, limit int) ([]key, error) {
	return db.Collect(ctx, q, "list sealed aigc keys", func(row db.Scanner) (k key, err error) {
		err = row.Scan(&k.tenantID, &k.KID, &k.sealed)
		return k, err
	}, `SELECT tenant_id, kid, secret_enc FROM aigc_keys WHERE kid > $1 ORDER BY kid LIMIT $2`, after, limit)
}

// replaceSealedKey stores another form of the same secret, unless another call did so before.
func replaceSealedKey(ctx context.Context, q db.Querier, k key, sealed []byte) (bool, error) {
	n, err := db.Affected(ctx, q, "replace sealed aigc key", `UPDATE aigc_keys SET secret_enc = $1 WHERE tenant_id = $2 AND kid = $3 AND secret_enc = $4`,
		sealed, k.tenantID, k.KID, k.sealed)
	return n > 0, err
}
