package hub

import (
	"context"
	"database/sql"
	"strings"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/store"
)

// organizationHasData reports whether a tenant has data: a new client of the organization could
// read them. Users are those of package user.
func (h *Hub) organizationHasData(ctx context.Context, tx *store.Tx, tenantID string) (bool, error) {
	for _, has := range []func(context.Context, *sql.Tx, string) (bool, error){
		h.providers.HasData, h.aigc.HasData, h.catalog.HasData, h.deploys.HasDeployments, h.chat.HasData,
	} {
		if found, err := has(ctx, tx.Tx, tenantID); found || err != nil {
			return found, err
		}
	}
	// The log names the users of an organization, also if they were deleted. Its own registration is
	// no data.
	for e, err := range h.log.Entries(ctx, tenantID, auditlog.Filter{}, nil) {
		if err != nil {
			return false, err
		}
		if !strings.HasSuffix(e.Action, "_tenant_client") && e.Action != "auth.prune_audit" {
			return true, nil
		}
	}
	return false, nil
}

// endDeployments replaces the keys of the deployments of a tenant, and may stop them.
func (h *Hub) endDeployments(ctx context.Context, tx *store.Tx, tenantID string, stop bool) (int, error) {
	return h.deploys.EndTenant(ctx, tx, tenantID, stop)
}
