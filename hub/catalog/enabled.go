package catalog

import (
	"context"
	"database/sql"
	"errors"

	"github.com/seed93082962/agenthost/hub/db"
)

// AgentEnabled reports whether an agent is enabled. It fails with api.NotFound if the tenant has no
// such agent.
func (s *Service) AgentEnabled(ctx context.Context, tenantID, name string) (enabled bool, err error) {
	err = s.db.Read().QueryRowContext(ctx, `SELECT enabled FROM agents WHERE tenant_id = $1 AND name = $2`, tenantID, name).Scan(&enabled)
	if errors.Is(err, sql.ErrNoRows) {
		return false, errNoAgent
	}
	return enabled, db.Wrap("read agent", err)
}
