package hub

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/auditlog/sqlaudit"
	"github.com/seed93082962/agenthost/hub/blob"
	"github.com/seed93082962/agenthost/hub/internal/aigc"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/artifact"
	"github.com/seed93082962/agenthost/hub/internal/audit"
	"github.com/seed93082962/agenthost/hub/internal/catalog"
	"github.com/seed93082962/agenthost/hub/internal/chat"
	"github.com/seed93082962/agenthost/hub/internal/chat/openai"
	"github.com/seed93082962/agenthost/hub/internal/chat/push"
	"github.com/seed93082962/agenthost/hub/internal/chat/relay"
	"github.com/seed93082962/agenthost/hub/internal/clitoken"
	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/internal/console"
	"github.com/seed93082962/agenthost/hub/internal/deployment"
	"github.com/seed93082962/agenthost/hub/internal/external"
	"github.com/seed93082962/agenthost/hub/internal/gateway"
	"github.com/seed93082962/agenthost/hub/internal/password"
	"github.com/seed93082962/agenthost/hub/internal/provider"
	"github.com/seed93082962/agenthost/hub/internal/session"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/internal/token"
	"github.com/seed93082962/agenthost/hub/internal/usage"
	"github.com/seed93082962/agenthost/hub/internal/user"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/rbac"
)

// migrations returns the migrations of all concerns.
func migrations() []db.Series {
	return []db.Series{
		{Name: "audit", Files: sqlaudit.Migrations()}, store.Migrations, user.Migrations, external.Migrations, provider.Migrations, aigc.Migrations,
		catalog.Migrations, deployment.Migrations, chat.Migrations, usage.Migrations,
	}
}

// sealed returns the sealed columns of all concerns.
func sealed() []store.Sealed {
	return slices.Concat(token.Sealed(), external.Sealed(), provider.Sealed(), aigc.Sealed(), catalog.Sealed(), deployment.Sealed())
}

// Routes returns every route of the API with its permission.
func (h *Hub) Routes() []api.Route {
	return limitAuthBodies(slices.Concat(
		h.healthRoutes(), h.settingsRoutes(), h.console.Routes(), h.audit.Routes(),
		h.keys.Routes(), h.users.Routes(), h.sessions.Routes(), h.cliTokens.Routes(), h.external.Routes(),
		h.providers.Routes(), h.aigc.Routes(), h.artifacts.Routes(), h.catalog.Routes(),
		h.deploys.Routes(), h.gateway.Routes(), h.chat.Routes(), h.push.Routes(), h.openai.Routes(), h.usage.Routes(),
	))
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

// openStore migrates the database and opens the audit log. For an offline hub it only checks the
// migrations.
func (h *Hub) openStore(ctx context.Context) error {
	prepare := h.db.Migrate
	if h.cfg.Offline {
		prepare = h.db.Migrated
	}

	err := prepare(ctx, migrations()...)
	if errors.Is(err, db.ErrPending) {
		return fmt.Errorf("%w: start the hub of this version once", err)
	}

	if err != nil {
		return err
	}

	h.log, err = sqlaudit.New(sqlaudit.Config{Write: h.db.Write(), Read: h.db.Read(), Engine: string(h.db.Engine()), Now: h.cfg.Now})
	if err != nil {
		return err
	}

	h.store, err = store.New(store.Config{
		DB: h.db, Keyring: h.keyring, Audit: h.log, Now: h.cfg.Now, LeaseTime: h.cfg.LeaseTime, Logger: h.cfg.Logger,
		MeterProvider: h.cfg.MeterProvider, TracerProvider: h.cfg.TracerProvider,
	})
	if err != nil {
		return err
	}

	h.audit, err = audit.New(audit.Config{Store: h.store, Log: h.log, Retention: h.cfg.AuditRetention})
	if err != nil || h.cfg.Offline {
		return err
	}

	if err := h.store.Join(ctx); err != nil {
		return err
	}

	if err := h.checkStorage(ctx); err != nil {
		return err
	}

	n, err := h.store.Rebind(ctx, sealed()...)
	if n > 0 {
		h.cfg.Logger.InfoContext(ctx, "secrets of an earlier version were sealed again", "values", n)
	}

	return err
}

// openSignIn opens users and the ways in which they sign in.
func (h *Hub) openSignIn(ctx context.Context) error {
	cfg := h.cfg
	program := cfg.Authenticate != nil && !cfg.ConsoleForms
	passwords := password.New(password.Config{Store: h.store, Cost: cfg.passwordCost})
	var err error
	if !cfg.Offline {
		if h.keys, err = token.New(ctx, h.store); err != nil {
			return err
		}
	}

	h.users, err = user.New(ctx, user.Config{
		Store: h.store, Passwords: passwords, PublicURL: cfg.PublicURL, SetupToken: cfg.SetupToken, External: cfg.External, Offline: cfg.Offline,
		Program: program,
		Withdraw: func(ctx context.Context, tx *store.Tx, caller api.Caller, tenantID, userID string, role rbac.Role) error {
			return h.deploys.RotateKeysReadBy(ctx, tx, caller, tenantID, userID, role)
		},
		Deleted: func(ctx context.Context, tx *store.Tx, u user.User) error {
			return h.usage.DropBudget(ctx, tx, usage.OfUser, u.ID, u.Username)
		},
	})
	if err != nil {
		return err
	}

	h.cliTokens = clitoken.New(h.store, h.users)
	h.sessions, err = session.New(session.Config{
		Store: h.store, Users: h.users, Passwords: passwords, CLITokens: h.cliTokens, Keys: h.keys, External: cfg.External, Offline: cfg.Offline,
	})
	if err != nil {
		return err
	}

	h.external, err = external.New(external.Config{
		Store: h.store, Sessions: h.sessions, PublicURL: cfg.PublicURL, Logins: cfg.External, Program: program,
		Global: cfg.IdentityProvider, BootstrapAdmins: cfg.BootstrapAdmins, OpsKey: cfg.OpsKey, Offline: cfg.Offline,
		HasData: h.organizationHasData,
		EndDeployments: func(ctx context.Context, tx *store.Tx, tenantID string, stop bool) (int, error) {
			return h.deploys.EndTenant(ctx, tx, tenantID, stop)
		},
	})
	return err
}

// organizationHasData reports whether a tenant has data: a new client of the organization could
// read them. Users are those of package user.
func (h *Hub) organizationHasData(ctx context.Context, tx *store.Tx, tenantID string) (bool, error) {
	for _, has := range []func(context.Context, *sql.Tx, string) (bool, error){
		h.providers.HasData, h.aigc.HasData, h.catalog.HasData, h.deploys.HasDeployments, h.chat.HasData, h.usage.HasData,
	} {
		if found, err := has(ctx, tx.Tx, tenantID); found || err != nil {
			return found, err
		}
	}

	// The log names the users of an organization, also if they were deleted. Its own registration is
	// no data.
	for e, err := range h.log.Entries(ctx, tenantID, auditlog.Filter{}, nil) {
		if err != nil {
			return false, err
		}

		if !strings.HasSuffix(e.Action, "_tenant_client") && e.Action != "auth.prune_audit" {
			return true, nil
		}
	}

	return false, nil
}

// openCatalog opens agents and what they consist of.
func (h *Hub) openCatalog(context.Context) error {
	var err error
	h.providers, err = provider.New(provider.Config{
		Store: h.store, ProbePrivate: h.cfg.ProbePrivate,
		InUse: func(ctx context.Context, tx *sql.Tx, tenantID, providerID string) ([]string, error) {
			return h.catalog.AgentsOfProvider(ctx, tx, tenantID, providerID)
		},
		CheckRoom: func(ctx context.Context, tx *sql.Tx, tenantID string) error {
			return h.catalog.CheckRoom(ctx, tx, tenantID)
		},
	})
	if err != nil {
		return err
	}

	driver := h.cfg.Artifacts
	if driver == nil {
		driver = &blob.Memory{}
		if !h.cfg.Offline {
			h.cfg.Logger.Warn("files of tools and skills are in memory and end with the hub: set Config.Artifacts")
		}
	}

	h.artifacts, err = artifact.New(artifact.Config{
		Driver: driver, Keyring: h.keyring, PublicURL: h.cfg.PublicURL, CDN: h.cfg.ArtifactURL, TempDir: h.cfg.TempDir, Now: h.cfg.Now,
	})
	if err != nil {
		return err
	}

	h.catalog, err = catalog.New(catalog.Config{
		Store: h.store, Providers: h.providers, Artifacts: h.artifacts, CheckTool: h.cfg.CheckTool, TempDir: h.cfg.TempDir,
		Deployed: func(ctx context.Context, tx *sql.Tx, tenantID, agentName string) (bool, error) {
			return h.deploys.Deployed(ctx, tx, tenantID, agentName)
		},
		Deleted: func(ctx context.Context, tx *store.Tx, agentName string) error {
			if err := h.chat.DropWaits(ctx, tx, agentName); err != nil {
				return err
			}

			return h.usage.DropBudget(ctx, tx, usage.OfAgent, agentName, agentName)
		},
		ApproversChanged: func(ctx context.Context, tx *store.Tx, agentName, approvers string) error {
			return h.chat.ChangeApprovers(ctx, tx, agentName, approvers)
		},
	})
	return err
}

// openUsage opens the counts of runs.
func (h *Hub) openUsage(context.Context) error {
	var err error
	h.usage, err = usage.New(usage.Config{
		Store: h.store, Prices: h.cfg.Prices, Retention: h.cfg.UsageRetention, Agent: h.catalog.AgentEnabled, Answers: relay.AnswersOf,
		User: func(ctx context.Context, caller api.Caller, id string) (wire.User, error) {
			u, err := h.users.User(ctx, caller, id)
			return u.User, err
		},
		Models: func(ctx context.Context, q db.Querier, tenantID, agentName string) ([]string, error) {
			return h.deploys.Models(ctx, q, tenantID, agentName)
		},
	})
	return err
}

// openDeployments opens the deployments and the proxy of their runtimes.
func (h *Hub) openDeployments(ctx context.Context) error {
	var err error
	h.deploys, err = deployment.New(ctx, deployment.Config{
		Store: h.store, Catalog: h.catalog, Driver: h.cfg.Deployer, PublicURL: h.cfg.PublicURL, GatewayURL: h.cfg.GatewayURL,
		Gateway: h.cfg.Gateway, Former: h.cfg.FormerDeployer, PrepareTimeout: h.cfg.PrepareTimeout, Most: h.cfg.MaxDeployment,
		External: h.cfg.External, HideAPIKey: h.cfg.HideRuntimeKeys, Machine: h.cfg.Machine, Offline: h.cfg.Offline,
	})
	if err != nil {
		return err
	}

	target := func(e deployment.Endpoint, err error) (gateway.Target, error) {
		return gateway.Target{URL: e.URL, APIKey: string(e.APIKey), AgentID: e.AgentID, Key: e.Key}, err
	}
	cfg := gateway.Config{
		Store: h.store, Tenant: api.DefaultTenant, Enabled: h.catalog.AgentEnabled, Usage: h.usage,
		Target: func(ctx context.Context, tenantID, agentName string) (gateway.Target, error) {
			return target(h.deploys.Endpoint(ctx, tenantID, agentName))
		},
		Authorize: func(ctx context.Context, tenantID, agentName, apiKey string) (gateway.Target, error) {
			return target(h.deploys.Authorize(ctx, tenantID, agentName, apiKey))
		},
		Draining: func(ctx context.Context, t gateway.Target) ([]string, error) {
			return h.deploys.Draining(ctx, t.Key, t.APIKey, t.URL)
		},
	}
	if h.cfg.External {
		cfg.Tenant = "" // paths begin with the organization
	}

	h.gateway, err = gateway.New(cfg)
	return err
}

// openChats opens chats, their labels and push.
func (h *Hub) openChats(context.Context) error {
	h.aigc = aigc.New(h.store)
	var err error
	h.chat, err = chat.New(chat.Config{
		Store: h.store, Catalog: h.catalog, Deployments: h.deploys, Labels: h.aigc, Admit: h.sessions.Admit, Owner: h.ownerOfChat,
		Relay: relay.Config{
			Usage: h.usage, ModelOf: h.catalog.ModelOf, Approvers: h.catalog.Approvers, UserAnswers: h.cfg.UserAnswers, AgentAnswers: h.cfg.AgentAnswers, Offline: h.cfg.Offline,
		},
	})
	if err != nil {
		return err
	}

	cfg := push.Config{Chats: h.chat, Catalog: h.catalog, Key: h.cfg.ChatPushKey, MeterProvider: h.cfg.MeterProvider}
	if h.cfg.External {
		cfg.ResolveOrg = h.external.ResolveOrg
	}

	if h.push, err = push.New(cfg); err != nil {
		return err
	}

	h.openai, err = openai.New(openai.Config{Chats: h.chat, Agents: h.catalog.Manifest, Live: h.deploys.Live, Admit: h.sessions.Admit})
	return err
}

// ownerOfChat returns the owner of a chat as a caller. The users of a program that embeds the hub
// are not known to it: the program ends their access.
func (h *Hub) ownerOfChat(ctx context.Context, q db.Querier, tenantID, userID string) (api.Caller, error) {
	u, err := user.ByID(ctx, q, tenantID, userID)
	if errors.Is(err, user.ErrNone) && h.cfg.Authenticate != nil {
		return api.Caller{TenantID: tenantID}, nil
	}

	if errors.Is(err, user.ErrNone) || err == nil && !u.Active() {
		err = code.AccountDisabled
	}

	return u.Caller(), err
}

// openAPI makes the handler of all routes.
func (h *Hub) openAPI(context.Context) error {
	var err error
	h.console, err = console.New(console.Config{
		Sessions: h.sessions, External: h.external, ExternalMode: h.cfg.External, PublicURL: h.cfg.PublicURL,
	})
	if err != nil {
		return err
	}

	h.handler, err = api.New(api.Config{
		Logger: h.cfg.Logger, PublicURL: h.cfg.PublicURL, TrustedProxies: h.cfg.TrustedProxies, CORSOrigins: h.cfg.CORSOrigins,
		UserRate: rate(h.cfg.UserRequests, userRequests), AddressRate: rate(h.cfg.AddressRequests, addressRequests), Now: h.cfg.Now,
		Authenticate: h.authenticate, Admit: h.sessions.Admit, Denied: h.audit.Denied, Translate: translate,
		MeterProvider: h.cfg.MeterProvider, TracerProvider: h.cfg.TracerProvider,
	}, h.Routes()...)
	return err
}

// The rates of a hub whose configuration has none.
const (
	userRequests    = 300
	addressRequests = 3000
)

// rate returns a rate of package api.
func rate(configured, otherwise int) int {
	if configured < 0 {
		return 0 // no limit
	}

	return cmp.Or(configured, otherwise)
}

// translate converts errors of packages without HTTP.
func translate(err error) *wire.Error {
	if db.Unavailable(err) || errors.Is(err, context.DeadlineExceeded) { // the time limit of a query
		return &wire.Error{Code: wire.Unavailable, RetryAfter: time.Second, Cause: err}
	}

	return nil
}
