package provider

import (
	"context"
	"database/sql"
	"strings"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/settings"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/agentvalue"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// Get returns a built-in provider or one of the tenant, and its settings with masked secrets and
// without its key, or wire.NotFound. It is for other concerns, which authorize before.
func (s *Service) Get(ctx context.Context, q db.Querier, tenantID, id string) (wire.Provider, agent.Provider, error) {
	p, err := find(ctx, q, tenantID, id)
	if err != nil {
		return wire.Provider{}, agent.Provider{}, err
	}

	open, _ := s.open(p) // secrets that cannot be opened are absent
	open.APIKey = ""
	return s.view(p), settings.Mask(open), nil
}

// find returns a built-in provider or one of the tenant.
func find(ctx context.Context, q db.Querier, tenantID, id string) (row, error) {
	if p, ok := builtin(id); ok {
		all := []row{p}
		err := readSharedKeys(ctx, q, tenantID, all)
		return all[0], err
	}

	return providerByID(ctx, q, tenantID, id)
}

// lockKey is find for a transaction that changes the key. Until it ends, no other one changes the
// provider, or deletes it.
func lockKey(ctx context.Context, tx *store.Tx, tenantID, id string) (row, error) {
	if _, ok := builtin(id); ok {
		return find(ctx, tx, tenantID, id)
	}

	return lockProvider(ctx, tx, tenantID, id)
}

// Reserve returns nil if the provider exists, and wire.NotFound otherwise. Until tx ends, the
// provider cannot be deleted. A caller that stores the id of a provider calls it in the same
// transaction.
func (s *Service) Reserve(ctx context.Context, tx *sql.Tx, tenantID, id string) error {
	if _, ok := builtin(id); ok {
		return nil
	}

	_, err := lockProvider(ctx, tx, tenantID, id)
	return err
}

// Open returns a provider, and its settings with all secrets in clear text. It fails with
// wire.NotFound if there is no such provider, and with wire.Conflict if a secret cannot be opened.
func (s *Service) Open(ctx context.Context, q db.Querier, tenantID, id string) (wire.Provider, agent.Provider, error) {
	p, err := find(ctx, q, tenantID, id)
	if err != nil {
		return wire.Provider{}, agent.Provider{}, err
	}

	open, err := s.usable(p)
	return s.view(p), open, err
}

// Match returns the enabled provider with the protocol and the base URL of want, an imported
// configuration, or wire.NotFound. An empty base URL is that of the vendor. Of several providers it
// prefers the one of the name, then those with the settings of want, then those of the tenant with
// usable secrets, and then the oldest. It adds a fault for each setting of want that the provider
// does not have. A value of want with a variable, ${NAME}, is that of the provider.
func (s *Service) Match(ctx context.Context, tenantID, name string, want agent.Provider, faults api.Fields) (wire.Provider, error) {
	missing := wire.NotFound.New("There is no provider with this protocol and base URL.")
	invalid := api.Fields{}
	if want.Protocol == agent.ProtocolDemo {
		want.BaseURL, want.AuthStyle = "", agentvalue.AuthNone // which it does not use
	} else if want = clean(invalid, want); invalid["protocol"] != "" || invalid["baseUrl"] != "" {
		return wire.Provider{}, missing
	}

	base, _, _ := strings.Cut(string(want.BaseURL), "?")
	var best row
	var lacks api.Fields
	const named = 1 << 20 // more than all differences
	least := 2 * named
	compare := func(p row) {
		open, err := s.open(p)
		differences := differences(want, open)
		score := 2 * len(differences)
		if err != nil || open.APIKey == "" && p.AuthStyle != agentvalue.AuthNone {
			score++
		}

		if p.Name != name {
			score += named
		}

		if score < least {
			best, lacks, least = p, differences, score
		}
	}
	if err := eachProviderAt(ctx, s.store.Read(), tenantID, want.Protocol, base, compare); err != nil {
		return wire.Provider{}, err
	}

	shared := builtins()
	if err := readSharedKeys(ctx, s.store.Read(), tenantID, shared); err != nil {
		return wire.Provider{}, err
	}

	for _, p := range shared {
		if p.Protocol == want.Protocol && p.BaseURL == base {
			compare(p)
		}
	}

	if least == 2*named {
		return wire.Provider{}, missing
	}

	for field, reason := range lacks {
		faults.Add(field, reason)
	}

	return s.view(best), nil
}

// differences returns a fault for each setting of want that have does not have.
func differences(want, have agent.Provider) api.Fields {
	faults := api.Fields{}
	differ := func(field string) {
		faults.Add(field, "differs from the provider of the hub with this protocol and baseUrl: change one of them")
	}
	stored := settings.Secrets(have)
	want.APIKey, have.APIKey = "", ""
	want = settings.Replace(want, func(key, value string) string {
		if before, ok := stored[key]; ok && (strings.Contains(value, "${") || value == settings.Masked) {
			return before
		}

		return value
	})
	known := map[string]bool{}
	for _, line := range settings.Lines(have) {
		known[line] = true
	}

	for _, line := range settings.Lines(want) {
		if field, _, _ := strings.Cut(line, ": "); !known[line] && line != "streamUsage: true" {
			differ(field)
		}
	}

	return faults
}
