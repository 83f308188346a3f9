package hub

import (
	"context"
	"time"

	"github.com/seed93082962/agenthost/hub/identity"
)

// systemTenant has the log of what belongs to no organization.
const systemTenant = "system"

// pruneEvery is how often entries that are older than the retention are looked for.
const pruneEvery = time.Hour

// retain takes entries away that are older than the retention, at once and then every hour, until ctx ends.
func (h *Hub) retain(ctx context.Context) {
	ticker := time.NewTicker(pruneEvery)
	defer ticker.Stop()
	for {
		for _, tenant := range []string{identity.DefaultTenant, systemTenant} {
			n, err := h.audit.Prune(ctx, tenant, h.cfg.Now().Add(-h.cfg.AuditRetention))
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				h.cfg.Logger.Error("prune audit log", "tenant", tenant, "err", err)
			case n > 0:
				h.cfg.Logger.Info("audit entries were pruned", "tenant", tenant, "entries", n)
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}
