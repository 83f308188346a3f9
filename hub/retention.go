package hub

import (
	"context"
	"time"

	"github.com/seed93082962/agenthost/auditlog"
)

var actionPruneAudit = auditlog.Define[auditlog.Pruning]("auth.prune_audit")

const (
	// checkEvery is the interval between two checks of the audit logs.
	checkEvery = time.Hour

	// pruneAfter is the time after a start in which nothing is pruned. It leaves time to correct
	// the clock or the retention.
	pruneAfter = 10 * time.Minute

	// clockTolerance is the difference between the clocks of several hubs that is not an error.
	clockTolerance = time.Minute
)

// maintainAudit checks the clock against the audit logs and applies the retention, every hour until
// ctx ends.
func (h *Hub) maintainAudit(ctx context.Context) {
	h.checkAuditHeads(ctx)
	wait := time.NewTimer(pruneAfter)
	defer wait.Stop()
	for {
		select {
		case <-wait.C:
		case <-ctx.Done():
			return
		}
		h.checkAuditHeads(ctx)
		h.pruneAudit(ctx)
		wait.Reset(checkEvery)
	}
}

// checkAuditHeads logs an error for a log whose newest entry is in the future. The clock was ahead
// when it was written, or is behind now.
func (h *Hub) checkAuditHeads(ctx context.Context) {
	for _, tenant := range h.auditTenants(ctx) {
		head, err := h.audit.Head(ctx, tenant)
		var now time.Time
		if err == nil {
			now, err = h.audit.Clock(ctx)
		}
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			h.cfg.Logger.Error("check audit log", "tenant", tenant, "err", err)
		case head.CreatedAt.After(now.Add(clockTolerance)):
			h.cfg.Logger.Error("the newest audit entry is in the future: check the clocks of the hub and the database",
				"tenant", tenant, "id", head.ID, "created_at", head.CreatedAt, "now", now)
		}
	}
}

func (h *Hub) pruneAudit(ctx context.Context) {
	if h.cfg.AuditRetention <= 0 {
		return
	}
	for _, tenant := range h.auditTenants(ctx) {
		n, err := h.audit.Prune(ctx, tenant, h.cfg.AuditRetention, actionPruneAudit)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			h.cfg.Logger.Error("prune audit log", "tenant", tenant, "err", err)
		case n > 0:
			h.cfg.Logger.Info("audit entries were pruned", "tenant", tenant, "entries", n)
		}
	}
}

// auditTenants lists the tenants that have a log.
func (h *Hub) auditTenants(ctx context.Context) []string {
	all, err := h.audit.Tenants(ctx)
	if err != nil && ctx.Err() == nil {
		h.cfg.Logger.Error("list audit logs", "err", err)
	}
	return all
}
