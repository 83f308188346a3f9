package hub

import (
	"context"
	"fmt"
	"slices"

	"github.com/seed93082962/agenthost/hub/aigc"
	"github.com/seed93082962/agenthost/hub/catalog"
	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/external"
	"github.com/seed93082962/agenthost/hub/provider"
	"github.com/seed93082962/agenthost/hub/store"
	"github.com/seed93082962/agenthost/hub/token"
)

// sealed returns the sealed columns of all concerns.
func sealed() []store.Sealed {
	return slices.Concat(token.Sealed(), external.Sealed(), provider.Sealed(), aigc.Sealed(), catalog.Sealed(), deploy.Sealed())
}

// bind binds what an earlier version sealed to its tenant. Rekey does it too, and other commands of
// an offline hub do not need it.
func (h *Hub) bind(ctx context.Context) error {
	if h.cfg.Offline {
		return nil
	}
	total, err := h.store.Rebind(ctx, sealed()...)
	if err != nil {
		return fmt.Errorf("bind secrets: %w", err)
	}
	if total > 0 {
		h.cfg.Logger.InfoContext(ctx, "secrets of an earlier version were sealed again", "values", total)
	}
	return nil
}

// Rekey seals everything with the first encryption key, and returns how many secrets were sealed
// with another.
func (h *Hub) Rekey(ctx context.Context) (int, error) { return h.store.Reseal(ctx, sealed()...) }
