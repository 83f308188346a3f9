package hub

import (
	"context"
	"time"
)

const (
	// sweepAfter is the time after a start in which nothing is deleted.
	sweepAfter = 10 * time.Minute

	// sweepEvery is the interval between two sweeps of the artifacts.
	sweepEvery = time.Hour

	// sweepGrace is the age at which an artifact that nothing names is deleted. An upload that is
	// stored and not yet committed is younger.
	sweepGrace = 24 * time.Hour
)

// maintainArtifacts deletes artifacts that nothing names, every hour until ctx ends. Each hub does
// so: a sweep by several of them has the same result as by one.
func (h *Hub) maintainArtifacts(ctx context.Context) {
	wait := time.NewTimer(sweepAfter)
	defer wait.Stop()
	for {
		select {
		case <-wait.C:
		case <-ctx.Done():
			return
		}
		h.sweepArtifacts(ctx)
		wait.Reset(sweepEvery)
	}
}

func (h *Hub) sweepArtifacts(ctx context.Context) {
	n, err := h.artifacts.Sweep(ctx, sweepGrace, h.catalog.Referenced)
	if err != nil && ctx.Err() == nil {
		h.cfg.Logger.Error("sweep artifacts", "err", err)
	}
	if n > 0 {
		h.cfg.Logger.Info("unused artifacts were deleted", "artifacts", n)
	}
}
