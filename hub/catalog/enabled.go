package catalog

import (
	"context"
	"database/sql"
	"errors"

	"github.com/seed93082962/agenthost/hub/db"
)

// LockAgent prevents that an agent is deleted until the transaction ends. It fails with
// api.NotFound if the tenant has no such agent. It does not authorize.
func (s *Service) LockAgent(ctx context.Context, tx *sql.Tx, tenantID, name string) error {
	n, err := db.Affected(ctx, tx, "lock agent", `UPDATE agents SET name = name WHERE tenant_id = $1 AND name = $2`, tenantID, name)
	if err == nil && n == 0 {
		err = errNoAgent
	}
	return err
}

// AgentEnabled reports whether an agent is enabled. It fails with api.NotFound if the tenant has no
// such agent.
func (s *Service) AgentEnabled(ctx context.Context, tenantID, name string) (enabled bool, err error) {
	err = s.store.Read().QueryRowContext(ctx, `SELECT enabled FROM agents WHERE tenant_id = $1 AND name = $2`, tenantID, name).Scan(&enabled)
	if errors.Is(err, sql.ErrNoRows) {
		return false, errNoAgent
	}
	return enabled, db.Wrap("read agent", err)
}
