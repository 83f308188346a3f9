// Package deploy runs the agents of the hub. It stores the desired state of each deployment, and a
// reconciler brings the runtimes of a [Driver] to it.
//
//	service, err := deploy.New(deploy.Config{
//		DB: database, Keyring: keyring, Audit: audit, Driver: driver, Source: source,
//		PublicURL: url,
//	})
//	if err != nil { ... }
//	defer service.Close()
//	endpoint, err := service.Endpoint(ctx, tenant, "helper")
//
// Several hubs may share a database. Each deployment has a lease, and only its holder acts on the
// deployment. A hub that was frozen for longer than its lease cannot change anything: each write to
// the database names the lease, and each call of the driver has its fencing number.
//
// A runtime is not trusted: a probe takes at most 3 s and reads at most 64 KiB of a response.
package deploy

import (
	"cmp"
	"context"
	"database/sql"
	"embed"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/db"
	"github.com/seed93082962/agenthost/hub/secret"
	"github.com/seed93082962/agenthost/internal/outbound"
)

//go:embed migrations
var files embed.FS

// Migrations create the table that New requires.
var Migrations = db.Embedded("deploy", files)

// Audit records changes in the transaction of the change.
type Audit interface {
	AppendTx(ctx context.Context, tx *sql.Tx, records ...auditlog.Record) error
}

// Source returns the configuration of an agent, with links that are valid for at least half an
// hour. It fails with api.NotFound if the tenant has no such agent.
type Source func(ctx context.Context, tenantID, agentName string) (Spec, error)

// Config configures [New].
type Config struct {
	// DB is a database with Migrations and those of Audit applied. Required.
	DB *db.DB

	// Keyring seals deploy requests, which contain the keys of providers. Required.
	Keyring *secret.Keyring

	// Audit receives a record of each change. If it fails, the change fails. Required.
	Audit Audit

	// Driver runs the runtimes. If it is nil, deployments cannot be changed: the routes respond
	// with api.DeployerUnavailable.
	Driver Driver

	// Source is the catalog. Required.
	Source Source

	// Lock prevents that an agent is deleted until the transaction ends. It fails with api.NotFound
	// if the tenant has no such agent. Defaults to no lock: then an agent that is deleted while it
	// is deployed leaves a deployment.
	Lock func(ctx context.Context, tx *sql.Tx, tenantID, agentName string) error

	// PublicURL is the public address of the hub. Required unless Offline.
	PublicURL string

	// GatewayURL is the public address of a gateway. Defaults to the proxy of the hub.
	GatewayURL string

	// External is true in external mode, where public URLs contain the organization.
	External bool

	// HideAPIKey removes the API key of a deployment from its status for members.
	HideAPIKey bool

	// LeaseTime is how long a hub may be silent before another one takes over its deployments. All
	// hubs need the same value. Defaults to 4 s.
	LeaseTime time.Duration

	// Backoff is the pause after the first failure of a runtime. It doubles with each further one,
	// up to a minute. Defaults to 500 ms.
	Backoff time.Duration

	// WatchEvery is the pause between two probes of a running deployment. Defaults to 1 s.
	WatchEvery time.Duration

	// StartTimeout is how long a runtime may take until its agent is ready. Defaults to a minute.
	StartTimeout time.Duration

	// Offline is for commands of an operator: there is no reconciler.
	Offline bool

	// Now is the clock. Defaults to time.Now.
	Now func() time.Time

	// Logger receives errors of the reconciler. Defaults to none.
	Logger *slog.Logger
}

// Service manages deployments. It is safe for concurrent use.
type Service struct {
	cfg        Config
	db         *db.DB
	endpoints  endpointCache
	client     *http.Client // of runtimes
	reconciler *reconciler  // nil without a driver
}

// New returns a Service. The caller must call Close.
func New(cfg Config) (*Service, error) {
	if cfg.DB == nil || cfg.Keyring == nil || cfg.Audit == nil || cfg.Source == nil {
		return nil, errors.New("create deploy service: DB, Keyring, Audit and Source are required")
	}
	cfg.PublicURL = strings.TrimRight(cfg.PublicURL, "/")
	if cfg.PublicURL == "" && !cfg.Offline {
		return nil, errors.New("create deploy service: PublicURL is required")
	}
	cfg.LeaseTime = cmp.Or(cfg.LeaseTime, 4*time.Second)
	cfg.Backoff = cmp.Or(cfg.Backoff, 500*time.Millisecond)
	cfg.WatchEvery = cmp.Or(cfg.WatchEvery, time.Second)
	cfg.StartTimeout = cmp.Or(cfg.StartTimeout, time.Minute)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Lock == nil {
		cfg.Lock = func(context.Context, *sql.Tx, string, string) error { return nil }
	}
	if cfg.Offline {
		cfg.Driver = nil
	}
	s := &Service{
		cfg: cfg, db: cfg.DB,
		endpoints: endpointCache{entries: map[endpointKey]endpointEntry{}},
		client:    &http.Client{Transport: outbound.Limit(outbound.Transport(), maxProbe)},
	}
	if cfg.Driver != nil {
		s.reconciler = startReconciler(s)
	}
	return s, nil
}

// Close ends the reconciler and returns its leases. The runtimes continue.
func (s *Service) Close() error {
	if s.reconciler != nil {
		s.reconciler.close()
	}
	s.client.CloseIdleConnections()
	return nil
}

// now returns the time in the precision of the database.
func (s *Service) now() time.Time { return s.cfg.Now().UTC().Truncate(time.Microsecond) }
