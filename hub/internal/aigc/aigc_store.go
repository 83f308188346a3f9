package aigc

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
)

// sealedSecret is the column of the keys that sign labels.
var sealedSecret = store.Sealed{
	Table: "aigc_keys", Column: "secret_enc", ID: "kid", Bound: []string{"tenant_id"}, Unbound: true,
	Advice: "labels that the key signed cannot be verified",
}

// Sealed returns the sealed columns of this package.
func Sealed() []store.Sealed { return []store.Sealed{sealedSecret} }

// scanConfig reads the columns config and updated_at. The configuration is nil if there is none.
func scanConfig(row db.Scanner) (*stored, wire.Time, error) {
	var st *stored
	var updated wire.Time
	err := row.Scan(db.JSON{V: &st}, &updated)
	return st, updated, db.WrapOne("read aigc configuration", err, nil)
}

// readConfig returns the configuration of the tenant, or nil.
func readConfig(ctx context.Context, q db.Querier, tenantID string) (*stored, wire.Time, error) {
	return scanConfig(q.QueryRowContext(ctx, `SELECT config, updated_at FROM aigc_configs WHERE tenant_id = $1`, tenantID))
}

// lockConfig is readConfig that excludes other changes of the configuration and the keys of the
// tenant until the transaction ends.
func lockConfig(ctx context.Context, tx db.Querier, tenantID string) (*stored, wire.Time, error) {
	return scanConfig(tx.QueryRowContext(ctx, `INSERT INTO aigc_configs (tenant_id) VALUES ($1)
		ON CONFLICT (tenant_id) DO UPDATE SET tenant_id = excluded.tenant_id RETURNING config, updated_at`, tenantID))
}

// writeConfig stores the configuration of the locked tenant. Nil deletes it.
func writeConfig(ctx context.Context, tx db.Querier, tenantID string, st *stored, now time.Time) error {
	return db.Exec(ctx, tx, "write aigc configuration",
		`UPDATE aigc_configs SET config = $1, updated_at = $2 WHERE tenant_id = $3`, db.JSON{V: &st}, db.Micros(now), tenantID)
}

// signingKey is the active key of a tenant.
type signingKey struct {
	kid    string
	sealed []byte
	signed bool // a label, which must remain verifiable
}

// readLabeling returns the configuration of the tenant, or nil, and its active key, or nil.
func readLabeling(ctx context.Context, q db.Querier, tenantID string) (*stored, *signingKey, error) {
	var k signingKey
	var st *stored
	err := q.QueryRowContext(ctx, `SELECT c.config, COALESCE(k.kid, ''), k.secret_enc, COALESCE(k.signed, FALSE) FROM aigc_configs c
		LEFT JOIN aigc_keys k ON k.tenant_id = c.tenant_id AND k.retired_at IS NULL WHERE c.tenant_id = $1`, tenantID).
		Scan(db.JSON{V: &st}, &k.kid, &k.sealed, &k.signed)
	var active *signingKey
	if k.kid != "" {
		active = &k
	}

	return st, active, db.WrapOne("read aigc configuration", err, nil)
}

// keysOf returns the keys of the tenant: the active one, then the newest. It returns at most
// maxListed.
func keysOf(ctx context.Context, q db.Querier, tenantID string) ([]wire.AIGCKey, error) {
	return db.Collect(ctx, q, "list aigc keys", func(row db.Scanner) (wire.AIGCKey, error) {
		var active bool
		k := wire.AIGCKey{Status: KeyVerifyOnly}
		err := row.Scan(&k.KID, &k.CreatedAt, &active)
		if active {
			k.Status = KeyActive
		}

		return k, err
	}, `SELECT kid, created_at, retired_at IS NULL FROM aigc_keys WHERE tenant_id = $1
		ORDER BY retired_at IS NULL DESC, created_at DESC, kid DESC LIMIT $2`, tenantID, maxListed)
}

// readSecret returns the sealed secret of a key of the tenant, active or not, or nil.
func readSecret(ctx context.Context, q db.Querier, tenantID, kid string) ([]byte, error) {
	var sealed []byte
	err := q.QueryRowContext(ctx, `SELECT secret_enc FROM aigc_keys WHERE tenant_id = $1 AND kid = $2`, tenantID, kid).Scan(&sealed)
	return sealed, db.WrapOne("read aigc key", err, nil)
}

func insertKey(ctx context.Context, q db.Querier, tenantID, kid string, sealed []byte, now time.Time) error {
	return db.Exec(ctx, q, "insert aigc key",
		`INSERT INTO aigc_keys (kid, tenant_id, secret_enc, created_at, signed) VALUES ($1, $2, $3, $4, FALSE)`,
		kid, tenantID, sealed, db.Micros(now))
}

// retireKey retires the active key of the locked tenant, or deletes it if it signed nothing, and
// returns its id, or "" if there is none.
func retireKey(ctx context.Context, tx db.Querier, tenantID string, now time.Time) (string, error) {
	var kid string
	err := tx.QueryRowContext(ctx, `DELETE FROM aigc_keys WHERE tenant_id = $1 AND retired_at IS NULL AND NOT signed RETURNING kid`, tenantID).Scan(&kid)
	if errors.Is(err, sql.ErrNoRows) {
		err = tx.QueryRowContext(ctx, `UPDATE aigc_keys SET retired_at = $1 WHERE tenant_id = $2 AND retired_at IS NULL RETURNING kid`,
			db.Micros(now), tenantID).Scan(&kid)
	}

	return kid, db.WrapOne("retire aigc key", err, nil)
}

// markSigned records that a key is going to sign a label, so that it is never deleted. It reports
// whether the key still exists.
func markSigned(ctx context.Context, q db.Querier, tenantID, kid string) (bool, error) {
	n, err := db.Affected(ctx, q, "mark aigc key", `UPDATE aigc_keys SET signed = TRUE WHERE tenant_id = $1 AND kid = $2`, tenantID, kid)
	return n > 0, err
}

// HasData reports whether the tenant has settings or keys.
func (s *Service) HasData(ctx context.Context, tx *sql.Tx, tenantID string) (bool, error) {
	return db.Value[bool](ctx, tx, "read label settings", `SELECT EXISTS (SELECT 1 FROM aigc_configs WHERE tenant_id = $1)
		OR EXISTS (SELECT 1 FROM aigc_keys WHERE tenant_id = $1)`, tenantID)
}
