// Package hub is the control plane of LLM agents as one http.Handler: providers with sealed keys,
// agents and their components, deployments, chats, users and their roles, and an audit log of every
// change, on SQLite or PostgreSQL.
//
//	h, err := hub.New(ctx, hub.Config{
//		DatabaseURL: "sqlite://hub.db", EncryptionKeys: []string{key},
//		PublicURL: "https://hub.example.com",
//	})
//	if err != nil { ... }
//	defer h.Close()
//	http.ListenAndServe("127.0.0.1:8080", h)
//
// Several hubs may serve one PostgreSQL database. A change of a user's rights takes effect
// immediately in the hub that made it, and within two seconds in the others.
package hub

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed93082962/agenthost/auditlog/sqlaudit"
	"github.com/seed93082962/agenthost/hub/aigc"
	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/artifact"
	"github.com/seed93082962/agenthost/hub/audit"
	"github.com/seed93082962/agenthost/hub/catalog"
	"github.com/seed93082962/agenthost/hub/chat"
	"github.com/seed93082962/agenthost/hub/chat/push"
	"github.com/seed93082962/agenthost/hub/clitoken"
	"github.com/seed93082962/agenthost/hub/db"
	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/external"
	"github.com/seed93082962/agenthost/hub/gateway"
	"github.com/seed93082962/agenthost/hub/provider"
	"github.com/seed93082962/agenthost/hub/secret"
	"github.com/seed93082962/agenthost/hub/session"
	"github.com/seed93082962/agenthost/hub/store"
	"github.com/seed93082962/agenthost/hub/token"
	"github.com/seed93082962/agenthost/hub/user"
)

// Config configures [New].
type Config struct {
	// DatabaseURL is sqlite://PATH or postgres://... Required.
	DatabaseURL string

	// MaxConns bounds the connections to the database. Defaults to that of hub/db.
	MaxConns int

	// EncryptionKeys encrypt the secrets in the database. Each is the base64 form of 32 bytes. The
	// first one encrypts, all of them decrypt. Required.
	EncryptionKeys []string

	// PublicURL is the public address of the hub, the base of links. Required unless Offline.
	PublicURL string

	// Offline is for commands of an operator, which may run while other hubs serve the database. An
	// offline hub neither creates nor migrates the database and has no background work.
	Offline bool

	// SetupToken is the token of the first-run setup. Defaults to a generated one, see
	// [Hub.SetupToken].
	SetupToken string

	// External selects external mode, in which users sign in with the identity provider of their
	// organization. Defaults to built-in mode, in which they have passwords.
	External bool

	// IdentityProvider is the client of external mode for the organization "default". Defaults to
	// none.
	IdentityProvider external.GlobalClient

	// BootstrapAdmins are users of external mode, as "organization/sub:subject" or
	// "organization/username", who become admin at their first login. Both are compared exactly.
	// Defaults to none.
	BootstrapAdmins []string

	// OpsKey enables the operations interface, which registers the clients of organizations.
	// Defaults to none: its routes are not found.
	OpsKey string

	// TrustedProxies are the networks whose X-Forwarded-For is trusted. Defaults to none.
	TrustedProxies []netip.Prefix

	// CORSOrigins are the origins whose pages may send requests, in addition to that of PublicURL.
	// Defaults to none.
	CORSOrigins []string

	// AuditRetention is the age at which audit entries are pruned, by the clock of the hub or the
	// database, whichever is earlier, and never in the first 10 minutes after a start. Each pruning
	// is recorded as auth.prune_audit. Defaults to no pruning.
	AuditRetention time.Duration

	// Artifacts has the files of tools and skills. Several hubs need the same. The caller closes it
	// after the hub. Defaults to memory, which is only for tests: a warning is logged.
	Artifacts artifact.Driver

	// ArtifactURL is the public address below which the keys of tools are served, such as that of a
	// CDN. Defaults to /artifacts below PublicURL.
	ArtifactURL string

	// TempDir is the directory of uploads that are not complete. Defaults to os.TempDir().
	TempDir string

	// CheckTool loads the file of a custom tool in a process that the file may end, such as that of
	// runtime/tool/js.Check, and returns the name that the file has for the tool. An error that is
	// not an api.ArtifactInvalid means that the file could not be checked. The check ends with ctx.
	// Defaults to none: uploads of tools respond with 503.
	CheckTool func(ctx context.Context, fileName, source string) (name string, err error)

	// Deployer runs the runtimes of agents. The caller closes it after the hub. Defaults to none:
	// the routes of deployments respond with 503 deployer_unavailable.
	Deployer deploy.Driver

	// StorageID identifies the directories of Deployer and Artifacts, if they are on this machine:
	// several hubs need the same. A warning is logged if the hub that started before had another
	// one. Defaults to no check.
	StorageID string

	// LeaseTime is how long a hub may be silent until another one on the same database takes over
	// its deployments. All hubs need the same value. Defaults to 4 s.
	LeaseTime time.Duration

	// GatewayURL is the public address of a gateway in front of the runtimes. Defaults to /runtime
	// below PublicURL.
	GatewayURL string

	// HideRuntimeKeys hides the API keys of deployments from members. Defaults to false.
	HideRuntimeKeys bool

	// ProbePrivate permits probes of providers at private and loopback addresses. Addresses of
	// metadata services and link-local addresses are always rejected. Defaults to false.
	ProbePrivate bool

	// ChatPushKey is the key with which programs push chats of any user. Defaults to none.
	ChatPushKey               string
	UserAnswers, AgentAnswers int // as in relay.Config

	// Version is reported by GET /health. Defaults to "devel".
	Version string

	// Logger receives requests and errors, never a secret. Defaults to none.
	Logger *slog.Logger

	// Now is the clock. Defaults to time.Now.
	Now func() time.Time
}

// Hub serves the API. Call Close after the last request.
type Hub struct {
	cfg       Config
	db        *db.DB
	log       *sqlaudit.Store
	audit     *audit.Service
	store     *store.Store
	keys      *token.Keys // nil if Offline
	users     *user.Service
	cliTokens *clitoken.Service
	sessions  *session.Service
	external  *external.Service
	providers *provider.Service
	aigc      *aigc.Service
	catalog   *catalog.Service
	chat      *chat.Service
	push      *push.Service
	gateway   *gateway.Service
	deploys   *deploy.Service
	artifacts *artifact.Store
	handler   http.Handler
	keyring   *secret.Keyring
	begin     time.Time
	draining  atomic.Bool
	readiness readyState
	requests  requests
	stop      context.CancelFunc // ends the background work
	running   sync.WaitGroup
}

// New opens and migrates the database and returns a hub that serves it.
func New(ctx context.Context, cfg Config) (_ *Hub, err error) {
	cfg.Version = cmp.Or(cfg.Version, "devel")
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.PublicURL = strings.TrimRight(cfg.PublicURL, "/")
	if cfg.PublicURL == "" && !cfg.Offline {
		return nil, errors.New("make hub: PublicURL is required")
	}
	h := &Hub{cfg: cfg, begin: cfg.Now(), stop: func() {}}
	if h.keyring, err = secret.Parse(cfg.EncryptionKeys...); err != nil {
		return nil, fmt.Errorf("read encryption keys: %w", err)
	}
	if err := h.openArtifacts(); err != nil {
		return nil, err
	}
	if h.db, err = db.Open(ctx, db.Config{URL: cfg.DatabaseURL, MaxConns: cfg.MaxConns, Logger: cfg.Logger}); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.Close())
		}
	}()
	if err := h.prepare(ctx); err != nil {
		return nil, err
	}
	h.log, err = sqlaudit.New(sqlaudit.Config{Write: h.db.Write(), Read: h.db.Read(), Engine: string(h.db.Engine()), Now: cfg.Now})
	if err != nil {
		return nil, err
	}
	h.store, err = store.New(store.Config{DB: h.db, Keyring: h.keyring, Audit: h.log, Now: cfg.Now, Logger: cfg.Logger})
	if err != nil {
		return nil, err
	}
	h.audit, err = audit.New(audit.Config{Store: h.store, Log: h.log, Retention: cfg.AuditRetention, Offline: cfg.Offline})
	if err != nil {
		return nil, err
	}
	if err := h.openSignIn(ctx); err != nil {
		return nil, err
	}
	if err := h.checkStorage(ctx); err != nil {
		return nil, err
	}
	h.providers, err = provider.New(provider.Config{Store: h.store, InUse: h.agentsOfProvider, ProbePrivate: cfg.ProbePrivate})
	if err != nil {
		return nil, err
	}
	h.aigc = aigc.New(h.store)
	h.catalog, err = catalog.New(catalog.Config{
		Store: h.store, Providers: h.providers, Artifacts: h.artifacts, CheckTool: cfg.CheckTool, TempDir: cfg.TempDir, Deployed: h.agentDeployed,
	})
	if err != nil {
		return nil, err
	}
	if err := h.bind(ctx); err != nil {
		return nil, err
	}
	if err := h.openDeploys(); err != nil {
		return nil, err
	}
	if err := h.openGateway(); err != nil {
		return nil, err
	}
	if err := h.openChat(); err != nil {
		return nil, err
	}
	h.handler, err = api.New(api.Config{
		Logger: cfg.Logger, PublicURL: cfg.PublicURL, TrustedProxies: cfg.TrustedProxies, CORSOrigins: cfg.CORSOrigins,
		Authenticate: h.sessions.Authenticate, Admit: h.sessions.Admit, Denied: h.audit.Denied, Translate: translate,
	}, h.Routes()...)
	if err != nil {
		return nil, err
	}
	if !cfg.Offline {
		background, stop := context.WithCancel(context.WithoutCancel(ctx))
		h.stop = stop
		h.running.Go(func() { h.maintainArtifacts(background) })
	}
	return h, nil
}

// prepare migrates the database. For an offline hub it only checks the migrations.
func (h *Hub) prepare(ctx context.Context) error {
	if !h.cfg.Offline {
		return h.db.Migrate(ctx, h.migrations()...)
	}
	err := h.db.Migrated(ctx, h.migrations()...)
	if errors.Is(err, db.ErrPending) {
		return fmt.Errorf("%w: start the hub of this version once", err)
	}
	return err
}

// Routes returns every route of the API with its permission.
func (h *Hub) Routes() []api.Route {
	return limitAuthBodies(slices.Concat(
		h.healthRoutes(), h.keys.Routes(), h.users.Routes(), h.sessions.Routes(), h.cliTokens.Routes(), h.external.Routes(),
		h.providers.Routes(), h.aigc.Routes(),
		h.catalog.Routes(),
		h.deploys.Routes(), h.gateway.Routes(),
		h.chat.Routes(),
		h.push.Routes(),
		h.audit.Routes(), h.artifacts.Routes(),
	))
}

// agentsOfProvider returns the names of the agents that use a provider.
func (h *Hub) agentsOfProvider(ctx context.Context, tx *sql.Tx, tenantID, providerID string) ([]string, error) {
	return h.catalog.AgentsOfProvider(ctx, tx, tenantID, providerID)
}

// maxAuthBody bounds the bodies of /auth/*, in bytes: most of them come from callers without
// credentials.
const maxAuthBody = 16 << 10

func limitAuthBodies(routes []api.Route) []api.Route {
	for i := range routes {
		if strings.HasPrefix(routes[i].Path, "/auth/") {
			routes[i].BodyLimit = maxAuthBody
		}
	}
	return routes
}

// migrations returns the migrations of all concerns.
func (h *Hub) migrations() []db.Series {
	return []db.Series{{Name: "audit", Files: sqlaudit.Migrations()}, user.Migrations, external.Migrations, provider.Migrations, aigc.Migrations, catalog.Migrations, deploy.Migrations, chat.Migrations}
}

// translate converts errors of packages without HTTP.
func translate(err error) *api.Error {
	if db.Unavailable(err) || errors.Is(err, context.DeadlineExceeded) { // the time limit of a query
		return &api.Error{Code: api.Unavailable, RetryAfter: time.Second, Cause: err}
	}
	return nil
}

// PublicURL returns the public address of the hub, without a trailing slash.
func (h *Hub) PublicURL() string { return h.cfg.PublicURL }

// WriteAudit writes the audit log of a tenant as NDJSON, oldest first, each entry with its hash. Of
// a damaged log it writes what is left before it returns the error.
func (h *Hub) WriteAudit(ctx context.Context, w io.Writer, tenantID string) error {
	return h.audit.Write(ctx, w, tenantID)
}

// Close ends the background work, writes pending entries, and closes the database.
func (h *Hub) Close() error {
	h.stop()
	h.running.Wait()
	var errs []error
	if h.chat != nil {
		errs = append(errs, h.chat.Close())
	}
	if h.external != nil {
		errs = append(errs, h.external.Close())
	}
	if h.deploys != nil {
		errs = append(errs, h.deploys.Close())
	}
	if h.sessions != nil {
		errs = append(errs, h.sessions.Close())
	}
	if h.audit != nil {
		errs = append(errs, h.audit.Close())
	}
	if h.log != nil {
		errs = append(errs, h.log.Close())
	}
	return errors.Join(append(errs, h.db.Close())...)
}
