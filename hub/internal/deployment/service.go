// Package deployment runs the agents of the hub. It stores the desired state of each deployment,
// and a reconciler brings the runtimes of a [deploy.Driver] to it.
//
//	service, err := deployment.New(ctx, deployment.Config{
//		Store: store, Catalog: agents, Driver: driver, PublicURL: url,
//	})
//	if err != nil { ... }
//	defer service.Close()
//	endpoint, err := service.Endpoint(ctx, tenant, "helper")
//
// Several hubs may share a database. Each deployment has one that controls it, and which is in the
// table of hubs: see [store.Store.Join]. A hub that was frozen and removed from the table cannot
// change a row: each write to the database requires its own row there. Its last call of the driver
// or the gateway may be late. A call of the driver has the UID of a deployment, so that it never
// deletes the data of a later one. What else it changes is repaired by the next observation: a
// runtime in a second, a part of a deployment that was deleted in four, a route in 10 s.
//
// A runtime is not trusted: a probe takes at most 3 s and reads at most 128 KiB of a response.
package deployment

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/hub/deploy"

	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/singleflight"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/catalog"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/outbound"
)

//go:embed migrations
var files embed.FS

// Migrations create the tables that New requires.
var Migrations = db.Embedded("deploy", files)

// Config configures [New].
type Config struct {
	// Store has a database with Migrations and those of Catalog applied. Required.
	Store *store.Store

	// Catalog has the agents. Required.
	Catalog *catalog.Service

	// Driver runs the runtimes. If it is nil, deployments cannot be changed: the routes respond
	// with code.DeployerUnavailable.
	Driver deploy.Driver

	// Former is the driver of a platform from which the deployments have moved to that of Driver:
	// runtimes there are stopped. Their data remains. Defaults to none.
	Former deploy.Driver

	// PublicURL is the public address of the hub. Required unless Offline.
	PublicURL string

	// GatewayURL is the public address of a gateway. Defaults to the proxy of the hub.
	GatewayURL string

	// Gateway has the routes from GatewayURL, which has no path then, to the runtimes. Defaults to
	// none: the hub changes no gateway.
	Gateway deploy.Gateway

	// External is true in external mode, where public URLs contain the organization.
	External bool

	// HideAPIKey removes the API key of a deployment from its status for members.
	HideAPIKey bool

	// Backoff is the pause after the first failure of a runtime. It doubles with each further one,
	// up to a minute. Defaults to 500 ms.
	Backoff time.Duration

	// RetryEvery is the pause between two attempts to start a failed deployment whose revision was
	// ready before. Defaults to a minute.
	RetryEvery time.Duration

	// WatchEvery is the pause between two probes of a running deployment, and between two looks for
	// deployments that are free. Defaults to 1 s.
	WatchEvery time.Duration

	// StartTimeout is how long a runtime may take until its agent is ready. Defaults to a minute.
	StartTimeout time.Duration

	// PrepareTimeout is how long a platform may prepare a start in addition, such as by pulling the
	// image. Defaults to 10 minutes.
	PrepareTimeout time.Duration

	// Machine identifies the machine of the hub if only hubs on it reach the runtimes of Driver. New
	// fails if another machine has deployments. Defaults to "": every hub reaches them.
	Machine string

	// Most bounds what the runtime of an agent may use. An agent that exceeds it is not started.
	// Defaults to no bounds.
	Most deploy.Bounds

	// Offline is for commands of an operator: there is no reconciler.
	Offline bool
}

// Service manages deployments. It is safe for concurrent use.
type Service struct {
	cfg         Config
	store       *store.Store
	driver      deploy.Driver // nil if there is none
	owner       string        // of the deployments on the platform: the database
	gatewayHost string
	endpoints   endpointCache
	drains      singleflight.Group
	client      *http.Client // of runtimes
	reconciler  *reconciler  // nil without a driver
	metrics     *metrics
	tracer      trace.Tracer

	gatewayCalls chan struct{} // has an element for each call that changes a route
}

// ErrOtherMachine reports that the deployments of the database belong to another machine.
var ErrOtherMachine = errors.New("another machine or data directory has process deployments of this database, which this hub cannot reach: " +
	"use DEPLOYER=docker or kubernetes, or delete the deployments there first; if that machine is gone, run hub adopt")

// New returns a Service. The caller must call Close.
func New(ctx context.Context, cfg Config) (*Service, error) {
	if cfg.Store == nil || cfg.Catalog == nil {
		return nil, errors.New("create deploy service: Store and Catalog are required")
	}

	cfg.PublicURL = strings.TrimRight(cfg.PublicURL, "/")
	if cfg.PublicURL == "" && !cfg.Offline {
		return nil, errors.New("create deploy service: PublicURL is required")
	}

	cfg.GatewayURL = strings.TrimRight(cmp.Or(cfg.GatewayURL, cfg.PublicURL+"/runtime"), "/")
	host := ""
	if cfg.Gateway != nil {
		var err error
		if host, err = gatewayHost(cfg); err != nil {
			return nil, fmt.Errorf("create deploy service: %w", err)
		}
	}

	cfg.Backoff = cmp.Or(cfg.Backoff, 500*time.Millisecond)
	cfg.RetryEvery = cmp.Or(cfg.RetryEvery, time.Minute)
	cfg.WatchEvery = cmp.Or(cfg.WatchEvery, time.Second)
	cfg.StartTimeout = cmp.Or(cfg.StartTimeout, time.Minute)
	cfg.PrepareTimeout = cmp.Or(cfg.PrepareTimeout, 10*time.Minute)
	s := &Service{
		cfg: cfg, store: cfg.Store, gatewayHost: host, tracer: cfg.Store.TracerProvider.Tracer(scope),
		gatewayCalls: make(chan struct{}, maxCalls),
		endpoints:    endpointCache{entries: map[endpointKey]endpointEntry{}},
		client:       &http.Client{Transport: outbound.Limit(outbound.Transport(), maxProbe)},
	}
	if cfg.Driver != nil && !cfg.Offline {
		elsewhere, err := onAnotherMachine(ctx, s.store.Read(), cfg.Machine)
		if err == nil && elsewhere {
			err = ErrOtherMachine
		}

		if err != nil {
			return nil, fmt.Errorf("create deploy service: %w", err)
		}

		s.owner, err = readOwner(ctx, s.store.Read())
		if err != nil {
			return nil, fmt.Errorf("create deploy service: %w", err)
		}

		if d, ok := cfg.Driver.(interface{ Own(owner string) }); ok {
			d.Own(s.owner)
		}

		s.driver = cfg.Driver
		s.reconciler = newReconciler(s)
	}

	if err := s.instrument(); err != nil {
		return nil, fmt.Errorf("create deploy service: %w", err)
	}

	if s.reconciler != nil {
		go s.reconciler.run(s.reconciler.ctx)
	}

	return s, nil
}

// instrument makes the instruments of deployments.
func (s *Service) instrument() (err error) {
	var workers func() []*worker
	if s.reconciler != nil {
		workers = s.reconciler.all
	}

	s.metrics, err = newMetrics(s.store.MeterProvider, workers)
	return err
}

// Close ends the reconciler. The runtimes continue.
func (s *Service) Close() error {
	s.metrics.stop()
	if s.reconciler != nil {
		s.reconciler.close()
	}

	s.client.CloseIdleConnections()
	if g, ok := s.cfg.Gateway.(interface{ CloseIdleConnections() }); ok {
		g.CloseIdleConnections()
	}

	return nil
}

// Adopt lets the next hub that starts have the deployments of a machine that is gone, and returns
// their number.
func (s *Service) Adopt(ctx context.Context) (n int, err error) {
	err = s.store.Change(ctx, store.Change{}, func(tx *store.Tx) error {
		keys, err := leaveMachines(ctx, tx)
		if n = len(keys); err != nil || n == 0 {
			return err
		}

		slices.Sort(keys)
		tx.Record(actionAdopt.Record(auditlog.Event{TenantID: api.SystemTenant}, adoptDetail{Count: n, DeploymentKeys: keys[:min(n, maxAdopted)]}))
		return nil
	})
	return n, err
}

// deploymentKey returns the identifier of an agent's deployment at the driver and the gateway. It
// has the organization in both modes.
func deploymentKey(tenantID, agentName string) string { return tenantID + "-" + agentName }

// GatewayURL returns the base of the public addresses of agents.
func (s *Service) GatewayURL() string { return s.cfg.GatewayURL }

// publicURL returns the public address of an agent. It has the organization only in external mode.
func (s *Service) publicURL(tenantID, agentName string) string {
	if s.cfg.External {
		return s.cfg.GatewayURL + "/" + tenantID + "/" + agentName
	}

	return s.cfg.GatewayURL + "/" + agentName
}

// The audit actions of this package.
var (
	actionDeploy    = auditlog.Define[deployDetail]("agent.deploy")
	actionStop      = auditlog.Define[keyDetail]("agent.stop")
	actionStart     = auditlog.Define[keyDetail]("agent.start")
	actionUndeploy  = auditlog.Define[keyDetail]("agent.undeploy")
	actionRollback  = auditlog.Define[rollbackDetail]("agent.rollback")
	actionAdopt     = auditlog.Define[adoptDetail]("agent.adopt")
	actionRotateKey = auditlog.Define[keyDetail]("agent.rotate_key")
)

type (
	deployDetail struct {
		DeploymentKey string `json:"deploymentKey"`
		SpecHash      string `json:"specHash"`
		Force         bool   `json:"force"`
	}
	rollbackDetail struct {
		DeploymentKey string `json:"deploymentKey"`
		SpecHash      string `json:"specHash"`
		Revision      int64  `json:"revision"` // whose configuration is deployed again
	}
	adoptDetail struct {
		Count          int      `json:"count"`
		DeploymentKeys []string `json:"deploymentKeys"` // the first maxAdopted
	}
	keyDetail struct {
		DeploymentKey string `json:"deploymentKey"`
	}
)

// maxAdopted bounds the keys in the record of [Service.Adopt].
const maxAdopted = 100

// event returns the event of an action with the agent as its target. The caller may belong to
// another tenant, or be the hub.
func (d deployment) event(caller api.Caller) auditlog.Event {
	e := caller.Event()
	e.TenantID = d.TenantID
	e.TargetType, e.TargetID, e.TargetName = "agent", d.AgentName, d.AgentName
	return e
}
