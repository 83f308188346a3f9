package identity

import (
	"context"
	"database/sql"
	"time"

	"github.com/seed93082962/agenthost/hub/db"
)

// insertInstance stores the id of the hub and the default tenant, unless they are stored, and
// returns the id.
func insertInstance(ctx context.Context, tx *sql.Tx, id string, now time.Time) (stored string, err error) {
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
