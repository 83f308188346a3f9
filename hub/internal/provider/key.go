package provider

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/settings"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/agentvalue"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/jsonlimit"
	"github.com/seed93082962/agenthost/rbac"
	"github.com/seed93082962/agenthost/runtime/agent"
)

const (
	maxKey = 4096 // bytes

	// minMasked is the shortest key of which a masked form shows characters: with a shorter one,
	// they would be a considerable part of it.
	minMasked = 24
)

// seal sets the sealed columns of a provider whose other columns are set.
func (s *Service) seal(p *row, open agent.Provider) error {
	p.sealedKey, p.sealedSettings = nil, nil
	if open.APIKey != "" {
		p.sealedKey = s.store.Keyring.Seal([]byte(open.APIKey), sealedKey.Place(p.ID, p.tenantID, p.BaseURL))
	}

	rest := withoutColumns(open)
	if reflect.ValueOf(rest).IsZero() {
		return nil
	}

	text, err := json.Marshal(rest)
	if err != nil {
		return fmt.Errorf("encode settings of provider: %w", err)
	}

	p.sealedSettings = s.store.Keyring.Seal(text, sealedSettings.Place(p.ID, p.tenantID, p.BaseURL))
	return nil
}

// withoutColumns returns the settings that have no column. Of the base URL, that is the query.
func withoutColumns(p agent.Provider) agent.Provider {
	_, query, found := strings.Cut(string(p.BaseURL), "?")
	p.Protocol = ""
	p.AuthStyle = ""
	p.APIKey = ""
	p.BaseURL = ""
	if found {
		p.BaseURL = agent.Secret("?" + query)
	}

	return p
}

// open returns the settings of a provider with its secrets. With an error, it returns those that
// can be opened.
func (s *Service) open(p row) (agent.Provider, error) {
	open := agent.Provider{Protocol: p.Protocol, AuthStyle: p.AuthStyle, BaseURL: agent.Secret(p.BaseURL)}
	var errs [2]error
	if p.sealedSettings != nil {
		text, err := s.store.Keyring.Open(p.sealedSettings, sealedSettings.Place(p.ID, p.tenantID, p.BaseURL))
		if err == nil {
			err = jsonlimit.Unmarshal(text, &open)
			open.Protocol = p.Protocol
			open.AuthStyle = p.AuthStyle
			open.BaseURL = agent.Secret(p.BaseURL) + withoutColumns(open).BaseURL
		}

		errs[0] = err
	}

	if p.sealedKey != nil {
		key, err := s.store.Keyring.Open(p.sealedKey, sealedKey.Place(p.ID, p.tenantID, p.BaseURL))
		open.APIKey, errs[1] = agent.Secret(key), err
	}

	return open, errors.Join(errs[:]...)
}

// usable is open with an error for the user.
func (s *Service) usable(p row) (agent.Provider, error) {
	open, err := s.open(p)
	if err != nil {
		return agent.Provider{}, &wire.Error{
			Code: wire.Conflict, Message: "The stored secrets of provider " + p.Name + " cannot be opened: enter the key again, and headers, query and body.", Cause: err,
		}
	}

	return open, nil
}

// view returns a provider as users see it.
func (s *Service) view(p row) wire.Provider {
	v := p.Provider
	open, err := s.open(p)
	key := string(open.APIKey)
	open.APIKey = ""
	open = settings.Mask(open)
	v.BaseURL = string(open.BaseURL)
	v.APIKeyHeader, v.Headers = open.APIKeyHeader, settings.Plain(open.Headers)
	v.Body, v.StreamUsage = open.Body, open.StreamUsage
	v.HasKey = p.sealedKey != nil
	v.Shared = p.tenantID == ""
	if v.Models == nil {
		v.Models = []wire.Model{}
	}

	switch {
	case err != nil:
		v.KeyState = KeyUnreadable
	case key != "":
		v.KeyState = KeyReady
		v.MaskedKey = mask(key)
	case p.AuthStyle == agentvalue.AuthNone:
		v.KeyState = KeyNotRequired
	default:
		v.KeyState = KeyMissing
	}

	return v
}

// mask returns the first and the last four characters of a long key, and none of a short one.
func mask(key string) string {
	if len(key) < minMasked {
		return "****"
	}

	return key[:4] + "..." + key[len(key)-4:]
}

// RevealKey returns the key of a provider. It fails with wire.NotFound if it has none, and with
// wire.Conflict if the key cannot be opened.
func (s *Service) RevealKey(ctx context.Context, caller api.Caller, id string) (wire.ProviderKey, error) {
	var key string
	err := s.store.Change(ctx, store.Change{Caller: caller, Group: rbac.AdminWrite}, func(tx *store.Tx) error {
		p, err := find(ctx, tx, caller.TenantID, id)
		if err != nil {
			return err
		}

		if p.sealedKey == nil {
			return wire.NotFound.New("The provider has no key.")
		}

		tx.Record(actionRevealKey.Record(p.event(caller.Event()), auditlog.None{}))
		open, err := s.usable(p)
		key = string(open.APIKey)
		return err
	})
	if err != nil {
		return wire.ProviderKey{}, err
	}

	return wire.ProviderKey{APIKey: key}, nil
}

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
		return p, nil
	}

	return providerByID(ctx, q, tenantID, id)
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
// prefers those with the settings of want, then those of the tenant with usable secrets, and then
// the oldest. It adds a fault for each setting of want that the provider does not have. A value of
// want with a variable, ${NAME}, is that of the provider.
func (s *Service) Match(ctx context.Context, tenantID string, want agent.Provider, faults api.Fields) (wire.Provider, error) {
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
	least := -1
	compare := func(p row) {
		open, err := s.open(p)
		differences := differences(want, open)
		score := 2 * len(differences)
		if err != nil || open.APIKey == "" && p.AuthStyle != agentvalue.AuthNone {
			score++
		}

		if least < 0 || score < least {
			best, lacks, least = p, differences, score
		}
	}
	if err := eachProviderAt(ctx, s.store.Read(), tenantID, want.Protocol, base, compare); err != nil {
		return wire.Provider{}, err
	}

	for _, p := range builtins() {
		if p.Protocol == want.Protocol && p.BaseURL == base {
			compare(p)
		}
	}

	if least < 0 {
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
