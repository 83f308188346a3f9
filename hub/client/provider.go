package client

import (
	"context"
	"iter"
	"net/http"

	"github.com/seed93082962/agenthost/hub/internal/bodies"
	"github.com/seed93082962/agenthost/hub/wire"
)

// Providers reads and changes model providers. Their names are ids.
type Providers struct {
	Catalog[wire.Provider, wire.ProviderRequest]
	Visible reader[wire.Provider] // List and Get for every member
}

// RuntimeConfig yields the providers as runtimes use them, without keys.
func (p Providers) RuntimeConfig(ctx context.Context) iter.Seq2[wire.Provider, error] {
	return list[wire.Provider](ctx, p.c, "/api/v1/providers/runtime-config", nil)
}

// SetKey replaces the key of a provider. A built-in provider gets one of the organization.
func (p Providers) SetKey(ctx context.Context, id, key string) (wire.Provider, error) {
	return send[wire.Provider](ctx, p.c, http.MethodPut, p.path+"/"+segment(id)+"/key", bodies.ProviderKey{APIKey: key})
}

// RemoveKey removes the key of a provider.
func (p Providers) RemoveKey(ctx context.Context, id string) error {
	return done(ctx, p.c, http.MethodDelete, p.path+"/"+segment(id)+"/key", nil)
}

// RevealKey returns the key of a provider. The audit log records it.
func (p Providers) RevealKey(ctx context.Context, id string) (string, error) {
	body, err := send[bodies.ProviderKey](ctx, p.c, http.MethodPost, p.path+"/"+segment(id)+"/reveal-key", nil)
	return body.APIKey, err
}

// Probe tests the connection to a provider. A failed test is a result, not an error.
func (p Providers) Probe(ctx context.Context, id string) (wire.ProbeResult, error) {
	return send[wire.ProbeResult](ctx, p.c, http.MethodPost, p.path+"/"+segment(id)+"/probe", nil)
}

// ProbeConfig tests a configuration that is not stored.
func (p Providers) ProbeConfig(ctx context.Context, req wire.ProbeRequest) (wire.ProbeResult, error) {
	return send[wire.ProbeResult](ctx, p.c, http.MethodPost, p.path+"/probe", req)
}
