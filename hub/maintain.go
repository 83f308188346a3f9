package hub

import (
	"context"
	"maps"
	"time"
)

const (
	// maintainAfter is the time after a start in which nothing is pruned or deleted. It leaves time
	// to correct the clock or the retention.
	maintainAfter = 10 * time.Minute

	// maintainEvery is the interval of the maintenance. Each hub does it: several have the same
	// result as one.
	maintainEvery = time.Hour

	// sweepGrace is the age at which an artifact that nothing names is deleted. An upload that is
	// stored and not yet committed is younger.
	sweepGrace = 24 * time.Hour
)

// maintain starts the maintenance of the audit logs, the artifacts and the usage, which ends
// with ctx.
func (h *Hub) maintain(ctx context.Context) {
	h.running.Go(func() {
		h.audit.CheckHeads(ctx)
		everyHour(ctx, h.audit.Maintain)
	})
	h.running.Go(func() { everyHour(ctx, h.sweepArtifacts) })
	h.running.Go(func() { everyHour(ctx, h.usage.Prune) })
	h.running.Go(func() { everyHour(ctx, h.sweepUploads) })
	h.running.Go(func() { h.usage.Settle(ctx) })
}

func everyHour(ctx context.Context, do func(context.Context)) {
	wait := time.NewTimer(maintainAfter)
	defer wait.Stop()
	for {
		select {
		case <-wait.C:
		case <-ctx.Done():
			return
		}

		do(ctx)
		wait.Reset(maintainEvery)
	}
}

// sweepUploads deletes uploads that no message has used.
func (h *Hub) sweepUploads(ctx context.Context) {
	n, err := h.chat.DeleteUnusedUploads(ctx)
	if err != nil && ctx.Err() == nil {
		h.cfg.Logger.Error("sweep uploads of chats", "err", err)
	}

	if n > 0 {
		h.cfg.Logger.Info("unused uploads of chats were deleted", "uploads", n)
	}
}

// sweepArtifacts deletes artifacts that nothing names, unless a backup is being written.
func (h *Hub) sweepArtifacts(ctx context.Context) {
	n, err := h.artifacts.Sweep(ctx, sweepGrace, func(ctx context.Context, keys []string) (map[string]bool, error) {
		named, err := h.catalog.Referenced(ctx, keys)
		if err != nil {
			return nil, err
		}

		deployed, err := h.deploys.Referenced(ctx, keys)
		if err != nil {
			return nil, err
		}

		maps.Copy(named, deployed)
		// A backup protects artifacts, and then reads the database. If this batch sees no protection,
		// the backup reads later than the batch has: what only the backup finds to be named was put
		// again in the meantime, and Sweep does not delete what is new.
		protected, err := h.artifactsProtected(ctx)
		for _, key := range keys {
			named[key] = named[key] || protected
		}

		return named, err
	})
	if err != nil && ctx.Err() == nil {
		h.cfg.Logger.Error("sweep artifacts", "err", err)
	}

	if n > 0 {
		h.cfg.Logger.Info("unused artifacts were deleted", "artifacts", n)
	}
}
