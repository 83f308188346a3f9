package aigc

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/seed93082962/agenthost/hub/db"
)

// scanConfig reads the columns config and updated_at. The configuration is nil if there is none.
func scanConfig(row db.Scanner) (*stored, time.Time, error) {
	var (
		config  sql.NullString
		updated sql.NullInt64
	)
	err := row.Scan(&config, &updated)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, time.Time{}, nil
	}
	if err != nil {
		return nil, time.Time{}, db.Wrap("read aigc configuration", err)
	}
	st, err := parseConfig(config)
	return st, db.NullTime(updated), err
}

func parseConfig(config sql.NullString) (*stored, error) {
	if !config.Valid {
		return nil, nil //nolint:nilnil // nil is the documented value of no configuration
	}
	st := new(stored)
	if err := json.Unmarshal([]byte(config.String), st); err != nil {
		return nil, fmt.Errorf("read aigc configuration: %w", err)
	}
	return st, nil
}

// readConfig returns the configuration of the tenant, or nil.
func readConfig(ctx context.Context, q db.Querier, tenantID string) (*stored, time.Time, error) {
	return scanConfig(q.QueryRowContext(ctx, `SELECT config, updated_at FROM aigc_configs WHERE tenant_id = $1`, tenantID))
}

// lockConfig is readConfig that excludes other changes of the configuration and the keys of the
// tenant until the transaction ends.
func lockConfig(ctx context.Context, tx *sql.Tx, tenantID string) (*stored, time.Time, error) {
	return scanConfig(tx.QueryRowContext(ctx, `INSERT INTO aigc_configs (tenant_id) VALUES ($1)
		ON CONFLICT (tenant_id) DO UPDATE SET tenant_id = excluded.tenant_id RETURNING config, updated_at`, tenantID))
}

// writeConfig stores the configuration of the locked tenant. Nil deletes it.
func writeConfig(ctx context.Context, tx *sql.Tx, tenantID string, st *stored, now time.Time) error {
	var config sql.NullString
	if st != nil {
		text, err := json.Marshal(st)
		if err != nil {
			return err
		}
		config = sql.NullString{String: string(text), Valid: true}
	}
	_, err := tx.ExecContext(ctx, `UPDATE aigc_configs SET config = $1, updated_at = $2 WHERE tenant_id = $3`, config, db.Micros(now), tenantID)
	return db.Wrap("write aigc configuration", err)
}

// readLabeling returns the configuration of the tenant, or nil, and its active key, or nil.
func readLabeling(ctx context.Context, q db.Querier, tenantID string) (*stored, *key, error) {
	var (
		config sql.NullString
		kid    sql.NullString
		k      key
	)
	err := q.QueryRowContext(ctx, `SELECT c.config, k.kid, k.secret_enc, COALESCE(k.signed, FALSE) FROM aigc_configs c
		LEFT JOIN aigc_keys k ON k.tenant_id = c.tenant_id AND k.retired_at IS NULL WHERE c.tenant_id = $1`, tenantID).Scan(&config, &kid, &k.sealed, &k.signed)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, db.Wrap("read aigc configuration", err)
	}
	st, err := parseConfig(config)
	if !kid.Valid {
		return st, nil, err
	}
	k.KID, k.tenantID = kid.String, tenantID
	return st, &k, err
}

// HasData reports whether the tenant has settings or keys.
func (s *Service) HasData(ctx context.Context, tx *sql.Tx, tenantID string) (has bool, err error) {
	err = tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM aigc_configs WHERE tenant_id = $1)
		OR EXISTS (SELECT 1 FROM aigc_keys WHERE tenant_id = $1)`, tenantID).Scan(&has)
	return has, db.Wrap("read label settings", err)
}
