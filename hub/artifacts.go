package hub

import (
	"context"
	"time"

	"github.com/seed93082962/agenthost/hub/artifact"
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

func (h *Hub) openArtifacts() (err error) {
	driver := h.cfg.Artifacts
	if driver == nil {
		driver = &artifact.Memory{}
		if !h.cfg.Offline {
			h.cfg.Logger.Warn("files of tools and skills are in memory and end with the hub: set Config.Artifacts")
		}
	}
	h.artifacts, err = artifact.New(artifact.Config{
		Driver: driver, Keyring: h.keyring, PublicURL: h.cfg.PublicURL, CDN: h.cfg.ArtifactURL, TempDir: h.cfg.TempDir, Now: h.cfg.Now,
	})
	return err
}

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
