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
	k := key{KID: kid}
	err := q.QueryRowContext(ctx, `SELECT secret_enc FROM aigc_keys WHERE tenant_id = $1 AND kid = $2`, tenantID, kid).Scan(&k.sealed)
	if errors.Is(err, sql.ErrNoRows) {
		return key{}, false, nil
	}
	return k, err == nil, db.Wrap("read aigc key", err)
}

func insertKey(ctx context.Context, tx *sql.Tx, tenantID string, k key) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO aigc_keys (kid, tenant_id, secret_enc, created_at) VALUES ($1, $2, $3, $4)`,
		k.KID, tenantID, k.sealed, db.Micros(k.CreatedAt))
	return db.Wrap("insert aigc key", err)
}

// retireKey retires the active key of the locked tenant and returns its id, or "" if there is none.
func retireKey(ctx context.Context, tx *sql.Tx, tenantID string, now time.Time) (kid string, err error) {
	err = tx.QueryRowContext(ctx, `UPDATE aigc_keys SET retired_at = $1 WHERE tenant_id = $2 AND retired_at IS NULL RETURNING kid`,
		db.Micros(now), tenantID).Scan(&kid)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return kid, db.Wrap("retire aigc key", err)
}

// sealedKey is a key of any tenant as it is stored.
type sealedKey struct {
	tenantID string
	key
}

// sealedKeys returns up to limit keys of all tenants, in the order of their ids, after the given
// one.
func sealedKeys(ctx context.Context, q db.Querier, after string, limit int) ([]sealedKey, error) {
	return db.Collect(ctx, q, "list sealed aigc keys", func(row db.Scanner) (k sealedKey, err error) {
		err = row.Scan(&k.tenantID, &k.KID, &k.sealed)
		return k, err
	}, `SELECT tenant_id, kid, secret_enc FROM aigc_keys WHERE kid > $1 ORDER BY kid LIMIT $2`, after, limit)
}

// replaceSealedKey stores another form of the same secret, unless another call did so before.
func replaceSealedKey(ctx context.Context, q db.Querier, k sealedKey, sealed []byte) (bool, error) {
	n, err := db.Affected(ctx, q, "replace sealed aigc key", `UPDATE aigc_keys SET secret_enc = $1 WHERE tenant_id = $2 AND kid = $3 AND secret_enc = $4`,
		sealed, k.tenantID, k.KID, k.sealed)
	return n > 0, err
}
