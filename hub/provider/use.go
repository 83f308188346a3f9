package provider

import (
	"context"
	"database/sql"
	"log/slog"
	"slices"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/db"
)

// Get returns a built-in provider or one of the tenant, or api.NotFound. It is for other concerns,
// which authorize before.
func (s *Service) Get(ctx context.Context, q db.Querier, tenantID, id string) (Provider, error) {
	p, err := find(ctx, q, tenantID, id)
	if err != nil {
		return Provider{}, err
	}
	return s.view(p), nil
}

// find returns a built-in provider or one of the tenant.
func find(ctx context.Context, q db.Querier, tenantID, id string) (provider, error) {
	if p, ok := builtin(id); ok {
		return p, nil
	}
	return providerByID(ctx, q, tenantID, id)
}

// Reserve returns nil if the provider exists, and api.NotFound otherwise. Until tx ends, the
// provider cannot be deleted. A caller that stores the id of a provider calls it in the same
// transaction.
func (s *Service) Reserve(ctx context.Context, tx *sql.Tx, tenantID, id string) error {
	if _, ok := builtin(id); ok {
		return nil
	}
	_, err := lockProvider(ctx, tx, tenantID, id)
	return err
}

// Match returns the enabled provider with that protocol and base URL, or api.NotFound. An empty
// base URL is that of the vendor. Of several providers it prefers those of the tenant, with a
// usable key, and then the oldest.
func (s *Service) Match(ctx context.Context, tenantID, protocol, baseURL string) (Provider, error) {
	missing := api.NotFound.New("There is no provider with this protocol and base URL.")
	if protocol == ProtocolDemo {
		return s.Get(ctx, s.store.Read(), tenantID, Demo)
	}
	fields := api.Fields{}
	to := target{protocol: protocol, baseURL: baseURL}.clean(fields)
	if len(fields) > 0 {
		return Provider{}, missing
	}
	all, err := providersAt(ctx, s.store.Read(), tenantID, to)
	if err != nil {
		return Provider{}, err
	}
	for _, p := range builtins() {
		if p.Protocol == to.protocol && p.BaseURL == to.baseURL {
			all = append(all, p)
		}
	}
	if len(all) == 0 {
		return Provider{}, missing
	}
	usable := func(p provider) bool {
		key, err := s.open(p)
		return err == nil && (key != "" || p.AuthStyle == AuthNone)
	}
	return s.view(all[max(0, slices.IndexFunc(all, usable))]), nil
}

// Credentials are a provider with its key. They do not print it.
type Credentials struct {
	Provider
	APIKey string // "" if there is none
}

// String returns the id of the provider.
func (c Credentials) String() string { return c.ID }

// GoString returns the id of the provider.
func (c Credentials) GoString() string { return c.ID }

// LogValue returns the id of the provider.
func (c Credentials) LogValue() slog.Value { return slog.StringValue(c.ID) }

// MarshalText returns the id of the provider, which is also the JSON form.
func (c Credentials) MarshalText() ([]byte, error) { return []byte(c.ID), nil }

// Credentials returns a provider with its key. It fails with api.NotFound if there is no such
// provider, and with api.Conflict if its key cannot be opened.
func (s *Service) Credentials(ctx context.Context, q db.Querier, tenantID, id string) (Credentials, error) {
	p, err := find(ctx, q, tenantID, id)
	if err != nil {
		return Credentials{}, err
	}
	key, err := s.usableKey(p)
	if err != nil {
		return Credentials{}, err
	}
	return Credentials{s.view(p), key}, nil
}
