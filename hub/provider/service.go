// Package provider manages the model providers of the hub: where a model is served, in which wire
// format, and the key for it.
//
// A tenant has its own providers, and sees the built-in ones: anthropic and openai, which have the
// address of the vendor and no key, and demo, which needs neither. Built-in providers are
// read-only.
//
// Keys are sealed in the database, bound to their row. Reads return them masked. Only
// [Service.RevealKey] and [Service.Credentials] return one. A row whose key cannot be opened is
// listed with the state [KeyUnreadable]; a new key repairs it.
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
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/db"
	"github.com/seed93082962/agenthost/hub/secret"
)

//go:embed migrations
var files embed.FS

// Migrations create the tables that New requires.
var Migrations = db.Embedded("provider", files)

// Audit appends records in the transaction of their change.
type Audit interface {
	AppendTx(ctx context.Context, tx *sql.Tx, records ...auditlog.Record) error
}

// Config configures [New].
type Config struct {
	// DB is a database with Migrations and those of Audit applied. Required.
	DB *db.DB

	// Keyring seals the keys of providers. Required.
	Keyring *secret.Keyring

	// Audit receives a record of each change, in the transaction of the change. Required.
	Audit Audit

	// InUse returns the names of the agents that use a provider. It is called in the transaction
	// that deletes the provider. Defaults to none.
	InUse func(ctx context.Context, tx *sql.Tx, tenantID, providerID string) ([]string, error)

	// ProbePrivate permits probes of private and loopback addresses. Addresses of metadata services
	// and link-local addresses are always rejected.
	ProbePrivate bool

	// ProbeTimeout bounds a probe. Defaults to 10 s.
	ProbeTimeout time.Duration

	// Now is the clock. Defaults to time.Now.
	Now func() time.Time

	// Logger receives keys that cannot be sealed again, by the id of their provider. Defaults to
	// none.
	Logger *slog.Logger
}

// Service is the provider part of the hub. It is safe for concurrent use.
type Service struct {
	cfg    Config
	db     *db.DB
	client *http.Client
	probes *slots
}

// New returns a Service on a migrated database.
func New(cfg Config) (*Service, error) {
	if cfg.DB == nil || cfg.Keyring == nil || cfg.Audit == nil {
		return nil, errors.New("create provider service: DB, Keyring and Audit are required")
	}
	cfg.ProbeTimeout = cmp.Or(cfg.ProbeTimeout, defaultProbeTimeout)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	if cfg.InUse == nil {
		cfg.InUse = func(context.Context, *sql.Tx, string, string) ([]string, error) { return nil, nil }
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Service{cfg: cfg, db: cfg.DB, client: probeClient(cfg.ProbePrivate), probes: newSlots()}, nil
}

// Routes returns all routes of this package.
func (s *Service) Routes() []api.Route {
	return slices.Concat(s.providerRoutes(), s.probeRoutes())
}

func (s *Service) now() time.Time { return s.cfg.Now().Truncate(time.Microsecond) }

func (s *Service) record(ctx context.Context, tx *sql.Tx, records ...auditlog.Record) error {
	return db.Wrap("record", s.cfg.Audit.AppendTx(ctx, tx, records...))
}
