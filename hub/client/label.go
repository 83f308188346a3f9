package client

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/seed93082962/agenthost/hub/wire"
)

// Labels configures the labels of generated content.
type Labels struct{ c *Client }

const labelsPath = "/api/v1/admin/aigc/config"

// Get returns the settings. Without settings, only Enabled is set, to false.
func (l Labels) Get(ctx context.Context) (wire.AIGCSettings, error) {
	return get[wire.AIGCSettings](ctx, l.c, labelsPath, nil)
}

// Set replaces the settings.
func (l Labels) Set(ctx context.Context, req wire.AIGCRequest) (wire.AIGCSettings, error) {
	return send[wire.AIGCSettings](ctx, l.c, http.MethodPut, labelsPath, req)
}

// Delete deletes the settings. The keys remain, to verify labels.
func (l Labels) Delete(ctx context.Context) error {
	return done(ctx, l.c, http.MethodDelete, labelsPath, nil)
}

// RotateKey replaces the key that signs labels.
func (l Labels) RotateKey(ctx context.Context) (wire.AIGCRotation, error) {
	return send[wire.AIGCRotation](ctx, l.c, http.MethodPost, labelsPath+"/rotate-key", nil)
}

// Verify checks a label as it was received, byte by byte.
func (l Labels) Verify(ctx context.Context, label json.RawMessage) (wire.AIGCVerification, error) {
	return send[wire.AIGCVerification](ctx, l.c, http.MethodPost, "/api/v1/admin/aigc/verify", label)
}
