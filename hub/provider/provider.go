package provider

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/rbac"
)

// Values of Provider.Protocol.
const (
	ProtocolAnthropic = "anthropic" // Anthropic Messages
	ProtocolOpenAI    = "openai"    // OpenAI Chat Completions
	ProtocolDemo      = "demo"      // part of the runtime; only the built-in provider has it
)

// Values of Provider.AuthStyle.
const (
	AuthAPIKey = "api_key" // header x-api-key
	AuthBearer = "bearer"  // header Authorization
	AuthNone   = "none"
)

// Values of Provider.KeyState.
const (
	KeyReady       = "ready"
	KeyMissing     = "missing"               // there is none, although AuthStyle is not none
	KeyNotRequired = "not_required"          // AuthStyle is none
	KeyUnreadable  = "needs_reconfiguration" // it cannot be opened with the encryption keys of the hub
)

// provider is a row of the table, or a built-in provider, which has no tenant.
type provider struct {
	ID        string
	TenantID  string
	Name      string
	Protocol  string
	AuthStyle string
	BaseURL   string
	SealedKey []byte // nil without a key
	Models    []Model
	Enabled   bool
	Version   int64
	CreatedAt time.Time
	UpdatedAt time.Time
}

func (p provider) shared() bool { return p.TenantID == "" }

// Model is a model of a provider, as a suggestion for agents. Numbers are in tokens, 0 if unknown.
type Model struct {
	ID            string `json:"id"`
	DisplayName   string `json:"displayName,omitempty"`
	ContextWindow int    `json:"contextWindow,omitzero"`
	MaxOutput     int    `json:"maxOutput,omitzero"`
}

// Provider is a provider as users see it.
type Provider struct {
	ID        string   `json:"id"`
	Name      string   `json:"name"`
	Protocol  string   `json:"protocol"`  // one of the Protocol constants
	AuthStyle string   `json:"authStyle"` // one of the Auth constants
	BaseURL   string   `json:"baseUrl"`   // without a trailing slash; "" for the demo provider
	MaskedKey string   `json:"maskedKey"` // "" without a key, or if it cannot be opened
	HasKey    bool     `json:"hasKey"`
	KeyState  string   `json:"keyState"` // one of the Key constants
	Shared    bool     `json:"shared"`   // built-in and read-only
	Models    []Model  `json:"models"`
	Enabled   bool     `json:"enabled"`
	Version   int64    `json:"version"`
	CreatedAt api.Time `json:"createdAt,omitzero"` // of a provider that is not shared
	UpdatedAt api.Time `json:"updatedAt,omitzero"`
}

func (s *Service) view(p provider) Provider {
	v := Provider{
		ID: p.ID, Name: p.Name, Protocol: p.Protocol, AuthStyle: p.AuthStyle, BaseURL: p.BaseURL, HasKey: p.SealedKey != nil, Shared: p.shared(),
		Models: p.Models, Enabled: p.Enabled, Version: p.Version, CreatedAt: api.Time(p.CreatedAt), UpdatedAt: api.Time(p.UpdatedAt),
	}
	if v.Models == nil {
		v.Models = []Model{}
	}
	v.MaskedKey, v.KeyState = s.describeKey(p)
	return v
}

// Providers returns the built-in providers, and then those of the tenant by name.
func (s *Service) Providers(ctx context.Context, caller api.Caller, page api.Page) (api.List[Provider], error) {
	found, total, err := s.list(ctx, caller, page, true)
	list := api.List[Provider]{Total: total}
	for _, p := range found {
		list.Items = append(list.Items, s.view(p))
	}
	return list, err
}

// list returns a page of the built-in providers followed by those of the tenant, and the number of
// all. Disabled ones are included if all is true.
func (s *Service) list(ctx context.Context, caller api.Caller, page api.Page, all bool) ([]provider, int, error) {
	if err := rbac.AdminRead.Check(caller); err != nil {
		return nil, 0, err
	}
	text := fold(page.Query)
	shared := matchingBuiltins(text)
	skip := min(page.Offset(), len(shared))
	first := shared[skip:min(skip+page.Size, len(shared))]
	own, total, err := providersOf(ctx, s.db.Read(), caller.TenantID, text, all, page.Size-len(first), page.Offset()-skip)
	return slices.Concat(first, own), total + len(shared), err
}

// Provider returns a built-in provider or one of the tenant.
func (s *Service) Provider(ctx context.Context, caller api.Caller, id string) (Provider, error) {
	if err := rbac.AdminRead.Check(caller); err != nil {
		return Provider{}, err
	}
	return s.Get(ctx, s.db.Read(), caller.TenantID, id)
}

// CreateProvider creates a provider of the tenant. It fails with api.NameTaken if another one has
// the name, in any letter case.
func (s *Service) CreateProvider(ctx context.Context, caller api.Caller, in Input) (Provider, error) {
	if err := rbac.AdminWrite.Check(caller); err != nil {
		return Provider{}, err
	}
	p, err := in.validate()
	if err != nil {
		return Provider{}, err
	}
	now := s.now()
	p.ID = ids.New()
	p.TenantID = caller.TenantID
	p.Version = 1
	p.CreatedAt = now
	p.UpdatedAt = now
	if in.APIKey.Value != "" {
		s.seal(&p, in.APIKey.Value)
	}
	err = s.db.Tx(ctx, func(tx *sql.Tx) error {
		if err := insertProvider(ctx, tx, p); err != nil {
			return err
		}
		return s.record(ctx, tx, actionCreate.Record(p.event(caller.Event()), createDetail{
			p.Protocol, p.AuthStyle, p.BaseURL, modelIDs(p.Models), p.Enabled, p.SealedKey != nil,
		}))
	})
	return s.view(p), err
}

// UpdateProvider replaces a provider of the tenant. The key changes as in.APIKey requires. It fails
// with api.PreconditionFailed if expected is not nil and not the current version, and with
// api.BuiltinReadonly for a built-in provider.
func (s *Service) UpdateProvider(ctx context.Context, caller api.Caller, id string, expected *int64, in Input) (Provider, error) {
	if err := checkWrite(caller, id); err != nil {
		return Provider{}, err
	}
	want, err := in.validate()
	if err != nil {
		return Provider{}, err
	}
	var after provider
	err = s.db.Tx(ctx, func(tx *sql.Tx) error {
		before, err := lockProvider(ctx, tx, caller.TenantID, id)
		if err != nil {
			return err
		}
		if expected != nil && *expected != before.Version {
			return api.PreconditionFailed
		}
		after = before
		after.Name = want.Name
		after.Protocol = want.Protocol
		after.AuthStyle = want.AuthStyle
		after.BaseURL = want.BaseURL
		after.Models, after.Enabled = want.Models, want.Enabled
		detail, changed := s.compare(before, after, in.APIKey)
		if !changed {
			return nil
		}
		switch key, keyErr := s.open(before); {
		case detail.APIKey == keyRemoved:
			after.SealedKey = nil
		case detail.APIKey != "":
			s.seal(&after, in.APIKey.Value)
		case key != "" && keyErr == nil: // the key remains, also at another base URL
			s.seal(&after, key)
		}
		after.Version, after.UpdatedAt = before.Version+1, s.now()
		if err := updateProvider(ctx, tx, after); err != nil {
			return err
		}
		return s.record(ctx, tx, actionUpdate.Record(after.event(caller.Event()), detail))
	})
	return s.view(after), err
}

// DeleteProvider deletes a provider of the tenant. It fails with api.InUse if agents use it, and
// with api.BuiltinReadonly for a built-in provider.
func (s *Service) DeleteProvider(ctx context.Context, caller api.Caller, id string) error {
	if err := checkWrite(caller, id); err != nil {
		return err
	}
	return s.db.Tx(ctx, func(tx *sql.Tx) error {
		// The row is deleted first: it excludes every Reserve until the transaction ends, and the
		// agents of those that committed before are visible to InUse.
		p, err := deleteProvider(ctx, tx, caller.TenantID, id)
		if err != nil {
			return err
		}
		agents, err := s.cfg.InUse(ctx, tx, caller.TenantID, p.ID)
		if err != nil {
			return err
		}
		if len(agents) > 0 {
			return &api.Error{
				Code: api.InUse, Message: "Agents use this provider: give the agents in data.agents another one first.",
				Data: map[string]any{"agents": slices.Sorted(slices.Values(agents))},
			}
		}
		return s.record(ctx, tx, actionDelete.Record(p.event(caller.Event()), deleteDetail{p.Protocol, p.BaseURL}))
	})
}

// checkWrite returns an error unless the caller may change the provider.
func checkWrite(caller api.Caller, id string) error {
	if err := rbac.AdminWrite.Check(caller); err != nil {
		return err
	}
	if _, ok := builtin(id); ok {
		return api.BuiltinReadonly.New("Built-in providers cannot be changed: create your own.")
	}
	return nil
}

// event returns e with the provider as its target.
func (p provider) event(e auditlog.Event) auditlog.Event {
	e.TargetType, e.TargetID, e.TargetName = targetProvider, p.ID, p.Name
	return e
}
