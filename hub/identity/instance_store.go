package identity

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/seed93082962/agenthost/hub/store"

	"github.com/seed93082962/agenthost/hub/db"
)

// insertInstance stores the id of the hub and the default tenant, unless they are stored, and
// returns the id.
func insertInstance(ctx context.Context, tx *store.Tx, id string, now time.Time) (stored string, err error) {
	_, err = tx.ExecContext(ctx, `INSERT INTO instance (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING`, instanceID, id)
	if err != nil {
		return "", err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO tenants (id, created_at) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING`,
		DefaultTenant, db.Micros(now))
	if err != nil {
		return "", err
	}
	err = tx.QueryRowContext(ctx, `SELECT value FROM instance WHERE name = $1`, instanceID).Scan(&stored)
	return stored, err
}

// replaceInstance stores the value of a row and returns the former one, or "".
func replaceInstance(ctx context.Context, tx *store.Tx, name, value string) (former string, err error) {
	err = tx.QueryRowContext(ctx, `SELECT value FROM instance WHERE name = $1`, name).Scan(&former)
	if err != nil && !errors.Is(err, sql.ErrNoRows) || former == value {
		return former, err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO instance (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value`, name, value)
	return former, err
}
