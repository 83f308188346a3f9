// Package provider manages the model providers of the hub: where a model is served, in which wire
// format, and the key for it.
//
// A tenant has its own providers, and sees the built-in ones: anthropic and openai, which have the
// address of the vendor and no key, and demo, which needs neither. Built-in providers are
// read-only. A tenant can give them a key of its own with [Service.SetKey].
//
// A provider has every setting of [agent.Provider]. Its key, the query of its base URL, and its
// further headers and body fields are sealed in the database, bound to their row. Reads return them
// masked. Only [Service.RevealKey] and [Service.Open] return one. A row whose secrets cannot be
// opened is listed with the state [KeyUnreadable]; new ones repair it.
//
// [Service.Probe] tests a connection by reading the list of models of the server. It connects only
// to public addresses, or also to private ones if [Config].ProbePrivate is set. The response is not
// trusted: it has at most 1 MiB, and the time of a probe is limited.
//
// Other concerns use [Service.Reserve] in the transaction that stores the id of a provider. A
// provider in use, according to [Config].InUse, cannot be deleted.
package provider

import (
	"cmp"
	"context"
	"database/sql"
	"embed"
	"errors"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/internal/settings"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/rbac"
	"github.com/seed93082962/agenthost/runtime/agent"
)

//go:embed migrations
var files embed.FS

// Migrations create the tables that New requires.
var Migrations = db.Embedded("provider", files)

// Config configures [New].
type Config struct {
	// Store has a database with Migrations applied. Required.
	Store *store.Store

	// InUse returns the names of the agents that use a provider. It is called in the transaction
	// that deletes the provider. Defaults to none.
	InUse func(ctx context.Context, tx *sql.Tx, tenantID, providerID string) ([]string, error)

	// CheckRoom returns wire.Conflict if a tenant has more than its quota. It is called in the
	// transaction that adds a provider or makes one larger, afterwards. Defaults to no quota.
	CheckRoom func(ctx context.Context, tx *sql.Tx, tenantID string) error

	// ProbePrivate permits probes of private and loopback addresses. Addresses of metadata services
	// and link-local addresses are always rejected.
	ProbePrivate bool

	// ProbeTimeout bounds a probe. Defaults to 10 s.
	ProbeTimeout time.Duration
}

// Service is the provider part of the hub. It is safe for concurrent use.
type Service struct {
	cfg    Config
	store  *store.Store
	client *http.Client

	mu     sync.Mutex     // guards probes
	probes map[string]int // that run, by tenant
}

// New returns a Service.
func New(cfg Config) (*Service, error) {
	if cfg.Store == nil {
		return nil, errors.New("create provider service: Store is required")
	}

	cfg.ProbeTimeout = cmp.Or(cfg.ProbeTimeout, defaultProbeTimeout)
	if cfg.InUse == nil {
		cfg.InUse = func(context.Context, *sql.Tx, string, string) ([]string, error) { return nil, nil }
	}

	if cfg.CheckRoom == nil {
		cfg.CheckRoom = func(context.Context, *sql.Tx, string) error { return nil }
	}

	return &Service{cfg: cfg, store: cfg.Store, client: probeClient(cfg.ProbePrivate), probes: map[string]int{}}, nil
}

// Values of wire.Provider.KeyState.
const (
	KeyReady       = "ready"
	KeyMissing     = "missing"               // there is none, although AuthStyle is not none
	KeyNotRequired = "not_required"          // AuthStyle is none
	KeyUnreadable  = "needs_reconfiguration" // it cannot be opened with the encryption keys of the hub
)

// row is a row of the table, or a built-in provider. Of the settings of the runtime, it has those
// with a column. The fields that depend on its secrets are set by view.
type row struct {
	wire.Provider
	tenantID       string // of a built-in provider, the one that gave it a key
	sealedKey      []byte // nil without a key
	sealedSettings []byte // nil without settings that have no column
}

// Bytes returns about the number of bytes of the row, which bounds a page.
func (p row) Bytes() int {
	const fixed, element = 1 << 10, 64 // of a row, and of a model without its texts
	size := fixed + len(p.Name) + len(p.BaseURL) + len(p.sealedKey) + len(p.sealedSettings)
	for _, m := range p.Models {
		size += element + len(m.ID) + len(m.DisplayName)
	}

	return size
}

// Providers returns the built-in providers, and then those of the tenant by name.
func (s *Service) Providers(ctx context.Context, caller api.Caller, page api.Page) (api.List[wire.Provider], error) {
	return s.list(ctx, caller, page, true)
}

// RuntimeConfigs returns the enabled ones of Providers. Their secrets are masked: a runtime
// receives them with its deployment.
func (s *Service) RuntimeConfigs(ctx context.Context, caller api.Caller, page api.Page) (api.List[wire.Provider], error) {
	return s.list(ctx, caller, page, false)
}

// list returns a page of the built-in providers followed by those of the tenant. Disabled ones are
// included if all is true.
func (s *Service) list(ctx context.Context, caller api.Caller, page api.Page, all bool) (api.List[wire.Provider], error) {
	if err := rbac.AdminRead.Check(caller); err != nil {
		return api.List[wire.Provider]{}, err
	}

	text := fold(page.Query)
	shared := matchingBuiltins(text)
	skip := min(page.Offset(), len(shared))
	found := shared[skip:min(skip+page.Size, len(shared))]
	if err := readSharedKeys(ctx, s.store.Read(), caller.TenantID, found); err != nil {
		return api.List[wire.Provider]{}, err
	}

	own, total, err := providersOf(ctx, s.store.Read(), caller.TenantID, text, all, page.Size-len(found), page.Offset()-skip)
	list := api.List[wire.Provider]{Total: total + len(shared)}
	for _, p := range slices.Concat(found, own) {
		list.Items = append(list.Items, s.view(p))
	}

	return list, err
}

// Provider returns a built-in provider or one of the tenant.
func (s *Service) Provider(ctx context.Context, caller api.Caller, id string) (wire.Provider, error) {
	if err := rbac.AdminRead.Check(caller); err != nil {
		return wire.Provider{}, err
	}

	p, err := find(ctx, s.store.Read(), caller.TenantID, id)
	if err != nil {
		return wire.Provider{}, err
	}

	return s.view(p), nil
}

// CreateProvider creates a provider of the tenant. It fails with wire.NameTaken if another one has
// the name, in any letter case.
func (s *Service) CreateProvider(ctx context.Context, caller api.Caller, in Input) (wire.Provider, error) {
	if err := rbac.AdminWrite.Check(caller); err != nil {
		return wire.Provider{}, err
	}

	fields := api.Fields{}
	p, open := in.validate(fields)
	if in.APIKey.Value == settings.Masked {
		fields.Add("apiKey", "has no stored value that "+settings.Masked+" could stand for")
	}

	open = settings.Restore(fields, open, agent.Provider{}) // there is nothing to restore
	if err := settings.Err(fields, in.faults); err != nil {
		return wire.Provider{}, err
	}

	open.APIKey = agent.Secret(in.APIKey.Value)
	p.ID = ids.New()
	p.tenantID = caller.TenantID
	p.Version = 1
	if err := s.seal(&p, open); err != nil {
		return wire.Provider{}, err
	}

	err := s.store.Change(ctx, store.Change{Caller: caller}, func(tx *store.Tx) error {
		p.CreatedAt = wire.Time{Time: tx.Now}
		p.UpdatedAt = p.CreatedAt
		tx.Record(actionCreate.Record(p.event(caller.Event()), createDetail{
			Protocol: p.Protocol, AuthStyle: p.AuthStyle, BaseURL: p.BaseURL, Settings: settings.Recorded(lines(open)),
			Models: modelIDs(p.Models), Enabled: p.Enabled, HasKey: p.sealedKey != nil,
		}))
		if err := insertProvider(ctx, tx, p); err != nil {
			return err
		}

		return s.cfg.CheckRoom(ctx, tx.Tx, caller.TenantID)
	})
	return s.view(p), err
}

// UpdateProvider replaces a provider of the tenant. The key changes as in.APIKey requires. It fails
// with wire.PreconditionFailed if expected is not nil and not the current version, and with
// code.BuiltinReadonly for a built-in provider.
func (s *Service) UpdateProvider(ctx context.Context, caller api.Caller, id string, expected *int64, in Input) (wire.Provider, error) {
	if err := checkWrite(caller, id); err != nil {
		return wire.Provider{}, err
	}

	invalid := api.Fields{}
	want, settled := in.validate(invalid)
	var after row
	err := s.store.Change(ctx, store.Change{Caller: caller}, func(tx *store.Tx) error {
		before, err := lockProvider(ctx, tx, caller.TenantID, id)
		if err != nil {
			return err
		}

		if err := store.CheckVersion(expected, before.Version); err != nil {
			return err
		}

		stored, keyErr := s.open(before)
		fields := maps.Clone(invalid)
		same := settings.Origin(before.BaseURL) == settings.Origin(want.BaseURL)
		open := settings.RestoreAt(fields, settled, stored, same)
		if in.APIKey.Value == settings.Masked || in.APIKey.Value != "" && stored.APIKey != "" && in.APIKey.Value == mask(string(stored.APIKey)) {
			in.APIKey.Value = "" // what responses have in place of it
		}

		if !same && before.sealedKey != nil && in.APIKey == (wire.KeyChange{}) {
			fields.Add("apiKey", settings.OtherDestination)
		}

		if err := settings.Err(fields, in.faults); err != nil {
			return err
		}

		open.APIKey = stored.APIKey // it remains, at the same origin
		switch {
		case in.APIKey.Remove:
			open.APIKey = ""
		case in.APIKey.Value != "":
			open.APIKey = agent.Secret(in.APIKey.Value)
		}

		after = before
		after.Name = want.Name
		after.Protocol, after.AuthStyle, after.BaseURL = want.Protocol, want.AuthStyle, want.BaseURL
		after.Models = want.Models
		after.Enabled = want.Enabled
		detail := compare(before, after, stored, open)
		switch {
		case in.APIKey.Remove && before.sealedKey != nil:
			detail.APIKey = keyRemoved
		case open.APIKey != "" && before.sealedKey == nil:
			detail.APIKey = keyAdded
		case in.APIKey.Value != "" && (keyErr != nil || stored.APIKey != open.APIKey):
			detail.APIKey = keyReplaced
		}

		if reflect.ValueOf(detail).IsZero() {
			return tx.Unchanged()
		}

		if err := s.seal(&after, open); err != nil {
			return err
		}

		if open.APIKey == "" && detail.APIKey == "" {
			after.sealedKey = before.sealedKey // none, or one that cannot be opened
		}

		after.Version++
		after.UpdatedAt = wire.Time{Time: tx.Now}
		tx.Record(actionUpdate.Record(after.event(caller.Event()), detail))
		if err := updateProvider(ctx, tx, after); err != nil || after.Bytes() <= before.Bytes() {
			return err
		}

		return s.cfg.CheckRoom(ctx, tx.Tx, caller.TenantID)
	})
	return s.view(after), err
}

// DeleteProvider deletes a provider of the tenant. It fails with wire.PreconditionFailed if
// expected is not nil and not the current version, with code.InUse if agents use it, and with
// code.BuiltinReadonly for a built-in provider.
func (s *Service) DeleteProvider(ctx context.Context, caller api.Caller, id string, expected *int64) error {
	if err := checkWrite(caller, id); err != nil {
		return err
	}

	return s.store.Change(ctx, store.Change{Caller: caller}, func(tx *store.Tx) error {
		// The row is deleted first: it excludes every Reserve until the transaction ends, and the
		// agents of those that committed before are visible to InUse.
		p, err := deleteProvider(ctx, tx, caller.TenantID, id)
		if err != nil {
			return err
		}

		if err := store.CheckVersion(expected, p.Version); err != nil {
			return err
		}

		agents, err := s.cfg.InUse(ctx, tx.Tx, caller.TenantID, p.ID)
		if err != nil {
			return err
		}

		if len(agents) > 0 {
			return &wire.Error{
				Code: code.InUse, Message: "Agents use this provider: give them another one first.",
				Data: wire.ErrorData{Agents: slices.Sorted(slices.Values(agents))},
			}
		}

		tx.Record(actionDelete.Record(p.event(caller.Event()), deleteDetail{p.Protocol, p.BaseURL}))
		return nil
	})
}

// checkWrite returns an error unless the caller may change the provider.
func checkWrite(caller api.Caller, id string) error {
	if err := rbac.AdminWrite.Check(caller); err != nil {
		return err
	}

	if _, ok := builtin(id); ok {
		return code.BuiltinReadonly.New("Built-in providers cannot be changed: create your own.")
	}

	return nil
}

// event returns e with the provider as its target.
func (p row) event(e auditlog.Event) auditlog.Event {
	return e.WithTarget(targetProvider, p.ID, p.Name)
}
