package catalog

import (
	"context"
	"database/sql"
	"errors"

	"github.com/seed93082962/agenthost/hub/db"
	"github.com/seed93082962/agenthost/hub/store"
)

// lockHead increments the version of a tenant, which locks its row: other changes of the tenant
// wait. It is the first statement of each transaction that changes something.
func lockHead(ctx context.Context, tx *sql.Tx, tenantID string) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO catalog_heads (tenant_id, version) VALUES ($1, 1)
		ON CONFLICT (tenant_id) DO UPDATE SET version = catalog_heads.version + 1`, tenantID)
	return db.Wrap("lock catalog", err)
}

// headVersion returns the version of a tenant. It is 0 if the tenant has no catalog.
func headVersion(ctx context.Context, q db.Querier, tenantID string) (version int64, err error) {
	err = q.QueryRowContext(ctx, `SELECT version FROM catalog_heads WHERE tenant_id = $1`, tenantID).Scan(&version)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return version, db.Wrap("read catalog version", err)
}

// HasData reports whether something was ever stored in the catalog of the tenant.
func (s *Service) HasData(ctx context.Context, tx *sql.Tx, tenantID string) (bool, error) {
	version, err := headVersion(ctx, tx, tenantID)
	return version > 0, err
}

// countComponents returns the number of agents and components of a tenant.
func countComponents(ctx context.Context, tx *store.Tx, tenantID string) (int, error) {
	return count(ctx, tx, "count components", `SELECT (SELECT COUNT(*) FROM agents WHERE tenant_id = $1) + (SELECT COUNT(*) FROM tools WHERE tenant_id = $1)
		+ (SELECT COUNT(*) FROM skills WHERE tenant_id = $1) + (SELECT COUNT(*) FROM scenes WHERE tenant_id = $1)
		+ (SELECT COUNT(*) FROM mcps WHERE tenant_id = $1) + (SELECT COUNT(*) FROM knowledge WHERE tenant_id = $1)`, tenantID)
}

// agentBytes returns the bytes of all agents of a tenant.
func agentBytes(ctx context.Context, tx *store.Tx, tenantID string) (int, error) {
	return count(ctx, tx, "measure agents", `SELECT COALESCE(SUM(bytes), 0) FROM agents WHERE tenant_id = $1`, tenantID)
}
