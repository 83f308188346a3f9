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
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/seed93082962/agenthost/auditlog/sqlaudit"
	"github.com/seed93082962/agenthost/hub/blob"
	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/internal/aigc"
	"github.com/seed93082962/agenthost/hub/internal/artifact"
	"github.com/seed93082962/agenthost/hub/internal/audit"
	"github.com/seed93082962/agenthost/hub/internal/catalog"
	"github.com/seed93082962/agenthost/hub/internal/chat"
	"github.com/seed93082962/agenthost/hub/internal/chat/openai"
	"github.com/seed93082962/agenthost/hub/internal/chat/push"
	"github.com/seed93082962/agenthost/hub/internal/clitoken"
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
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/secret"
)

// Config configures [New].
type Config struct {
	// DatabaseURL is sqlite://PATH or postgres://... Required.
	DatabaseURL string

	// MaxConns bounds the connections to the database. Defaults to 8 for reads with SQLite, and to 16
	// with PostgreSQL.
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
	IdentityProvider IdentityProvider

	// BootstrapAdmins are users of external mode, as "organization/sub:subject" or
	// "organization/username", who become admin at their first login. Both are compared exactly.
	// Defaults to none.
	BootstrapAdmins []string

	// Authenticate returns the user of a request if the request has a credential of the program that
	// embeds the hub, such as a cookie, and otherwise nil: then the hub authenticates the request. Of
	// the caller it needs the UserID and the RoleNow. The TenantID defaults to "default", and
	// the UserName to the UserID. The id and the username, in any letter case, are those of no other
	// user of the program or the hub: the access of an agent may contain either. The function is
	// called for each request that needs a user, and its error is the response: 401 for one that wraps
	// [wire.Unauthenticated], and otherwise 500.
	//
	// The console asks users to sign in at the program, without a form, unless ConsoleForms is set.
	// Then it sends requests with what the browser has for the address of the hub, such as a
	// cookie. The sign-out of the console does not end that session.
	//
	// Such a user has everything that the role permits, except the changes of users, invitations and
	// CLI tokens. The program decides when the access ends: it cancels the context of a stream.
	// Defaults to none.
	Authenticate func(*http.Request) (*Caller, error)

	// ConsoleForms is for a program whose Authenticate is not for browsers: the console shows the
	// forms of the hub. Defaults to false.
	ConsoleForms bool

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

	// UsageRetention is the age at which the tokens of single runs are deleted, by the clock of the
	// hub, and never in the first 10 minutes after a start. The sums of days remain. Defaults to no
	// deletion.
	UsageRetention time.Duration

	// Artifacts has the files of tools and skills. Several hubs need the same. The caller closes it
	// after the hub. Defaults to memory, which is only for tests: a warning is logged.
	Artifacts blob.Driver

	// ArtifactURL is the public address below which the keys of tools are served, such as that of a
	// CDN. Defaults to /artifacts below PublicURL.
	ArtifactURL string

	// TempDir is the directory of uploads that are not complete. Defaults to os.TempDir().
	TempDir string

	// CheckTool parses the file of a custom tool in a process that the file may end, without
	// running it, as runtime/tool/js.Config.NameOf does, and returns the name that the file has for
	// the tool. An error with the method FileFault() string describes a file that is not a tool, to
	// its author; any other means that the file could not be checked. The check ends with ctx.
	// Defaults to none: uploads of tools respond with 503.
	CheckTool func(ctx context.Context, fileName, source string) (name string, err error)

	// Deployer runs the runtimes of agents. The caller closes it after the hub. Defaults to none:
	// the routes of deployments respond with 503 deployer_unavailable.
	Deployer deploy.Driver

	// FormerDeployer is the one from which the deployments have moved to Deployer: runtimes there are
	// stopped. Defaults to none.
	FormerDeployer deploy.Driver

	// Machine identifies the machine of the hub if only hubs on it reach the runtimes of Deployer. New
	// fails with deployment.ErrOtherMachine if another machine has deployments. Defaults to "": every
	// hub reaches them.
	Machine string

	// StorageID identifies the directories of Deployer and Artifacts, if they are on this machine:
	// several hubs need the same. A warning is logged if the hub that started before had another
	// one. Defaults to no check.
	StorageID string

	// LeaseTime is how long a hub may be silent until another one on the same database takes over
	// its deployments and ends its answers. All hubs need the same value. Defaults to 4 s.
	LeaseTime time.Duration

	// PrepareTimeout is how long Deployer may prepare the start of a runtime, such as by pulling its
	// image. Defaults to 10 minutes.
	PrepareTimeout time.Duration

	// MaxDeployment bounds what the runtime of an agent may use, for the deployment settings of
	// agents. Defaults to no bounds.
	MaxDeployment deploy.Bounds

	// GatewayURL is the public address of a gateway in front of the runtimes. Defaults to /runtime
	// below PublicURL.
	GatewayURL string

	// Gateway has the routes from GatewayURL, which has no path then, to the runtimes, such as that of
	// hub/gateway/kong. Defaults to none: the hub changes no gateway.
	Gateway deploy.Gateway

	// HideRuntimeKeys hides the API keys of deployments from members. Defaults to false.
	HideRuntimeKeys bool

	// ProbePrivate permits probes of providers at private and loopback addresses. Addresses of
	// metadata services and link-local addresses are always rejected. Defaults to false.
	ProbePrivate bool

	// ChatPushKey is the key with which programs push chats of any user. Defaults to none.
	ChatPushKey               string
	UserAnswers, AgentAnswers int // as in relay.Config

	// UserRequests and AddressRequests are the messages, uploads and pushes of chats, and the requests
	// to sign a program in, that a user, and the clients of an address (of IPv6: a /64), may send
	// within a minute, to each hub. Those of an address have its runs at /runtime. Default to 300 and
	// 3000; negative is no limit.
	UserRequests, AddressRequests int

	// Prices are those of models by name, in addition to the known ones.
	// Defaults to none.
	Prices map[string]Price

	// MeterProvider receives metrics, and TracerProvider the spans of requests, answers, transactions
	// and deployments. They have no content of messages. Default to none.
	MeterProvider  metric.MeterProvider
	TracerProvider trace.TracerProvider

	// Version is reported by GET /health. Defaults to "devel".
	Version string

	// Logger receives requests and errors, never a secret. Defaults to none.
	Logger *slog.Logger

	// Now is the clock. Defaults to time.Now.
	Now func() time.Time

	passwordCost password.Cost // of tests. Defaults to that of package password.
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
	openai    *openai.Service
	usage     *usage.Service
	gateway   *gateway.Service
	deploys   *deployment.Service
	console   *console.Service
	artifacts *artifact.Store
	handler   http.Handler
	keyring   *secret.Keyring
	begin     time.Time
	draining  atomic.Bool
	readiness readyState
	requests  atomic.Pointer[requests] // that Drain waits for
	stop      context.CancelFunc       // ends the background work
	running   sync.WaitGroup
}

// New opens and migrates the database and returns a hub that serves it.
func New(ctx context.Context, cfg Config) (*Hub, error) {
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
	h.requests.Store(new(requests))
	var err error
	if h.keyring, err = secret.Parse(cfg.EncryptionKeys...); err != nil {
		return nil, fmt.Errorf("read encryption keys: %w", err)
	}

	if h.db, err = db.Open(ctx, db.Config{URL: cfg.DatabaseURL, MaxConns: cfg.MaxConns, Logger: cfg.Logger, MeterProvider: cfg.MeterProvider}); err != nil {
		return nil, err
	}

	for _, open := range []func(context.Context) error{h.openStore, h.openSignIn, h.openCatalog, h.openUsage, h.openDeployments, h.openChats, h.openAPI} {
		if err := open(ctx); err != nil {
			return nil, errors.Join(err, h.Close())
		}
	}

	if !cfg.Offline {
		background, stop := context.WithCancel(context.WithoutCancel(ctx))
		h.stop = stop
		h.maintain(background)
		if err := h.followBackups(background); err != nil {
			return nil, errors.Join(err, h.Close())
		}
	}

	return h, nil
}

// PublicURL returns the public address of the hub, without a trailing slash.
func (h *Hub) PublicURL() string { return h.cfg.PublicURL }

// Close cancels the answers and the runs at /runtime in progress, ends the background work, writes
// pending entries, and closes the database.
func (h *Hub) Close() error {
	if h.gateway != nil { // before the end of the work that stores the ends of its runs later
		ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
		defer cancel()
		h.gateway.Shutdown(ctx)
	}

	h.stop()
	h.running.Wait()
	var errs []error
	if h.openai != nil {
		errs = append(errs, h.openai.Close())
	}

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

	if h.store != nil {
		h.store.Leave()
	}

	return errors.Join(append(errs, h.db.Close())...)
}
