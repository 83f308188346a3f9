package audit

import (
	"context"
	"time"

	"github.com/seed93082962/agenthost/auditlog"
)

var actionPrune = auditlog.Define[auditlog.Pruning]("auth.prune_audit")

// clockTolerance is the difference between the clocks of several hubs that is not an error.
const clockTolerance = time.Minute

// Maintain checks the clock against the logs, and applies the retention.
func (s *Service) Maintain(ctx context.Context) {
	s.CheckHeads(ctx)
	s.Prune(ctx)
}

// CheckHeads logs an error for a log whose newest entry is in the future. The clock was ahead
// when it was written, or is behind now.
func (s *Service) CheckHeads(ctx context.Context) {
	for _, tenant := range s.tenants(ctx) {
		head, err := s.log.Head(ctx, tenant)
		var now time.Time
		if err == nil {
			now, err = s.log.Clock(ctx)
		}

		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			s.store.Logger.Error("check audit log", "tenant", tenant, "err", err)
		case head.CreatedAt.After(now.Add(clockTolerance)):
			s.store.Logger.Error("the newest audit entry is in the future: check the clocks of the hub and the database",
				"tenant", tenant, "id", head.ID, "created_at", head.CreatedAt, "now", now)
		}
	}
}

// Prune deletes the entries that are older than the retention. Each pruning is recorded.
func (s *Service) Prune(ctx context.Context) {
	if s.retention <= 0 {
		return
	}

	for _, tenant := range s.tenants(ctx) {
		n, err := s.log.Prune(ctx, tenant, s.retention, actionPrune)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			s.store.Logger.Error("prune audit log", "tenant", tenant, "err", err)
		case n > 0:
			s.store.Logger.Info("audit entries were pruned", "tenant", tenant, "entries", n)
		}
	}
}

// tenants lists the tenants that have a log.
func (s *Service) tenants(ctx context.Context) []string {
	all, err := s.log.Tenants(ctx)
	if err != nil && ctx.Err() == nil {
		s.store.Logger.Error("list audit logs", "err", err)
	}

	return all
}
