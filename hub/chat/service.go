package chat

import (
	"cmp"
	"context"
	"database/sql"
	"embed"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/aigc"
	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/db"
	"github.com/seed93082962/agenthost/internal/outbound"
)

//go:embed migrations
var files embed.FS

// Migrations create the tables that New requires.
var Migrations = db.Embedded("chat", files)

// Audit records a change in its transaction.
type Audit interface {
	AppendTx(ctx context.Context, tx *sql.Tx, records ...auditlog.Record) error
}

// Endpoint is the runtime of a deployed agent.
type Endpoint struct {
	URL     string // without /v1
	APIKey  string
	AgentID string // in the runtime
}

// Config configures [New].
type Config struct {
	// DB is a database with Migrations applied. Required.
	DB *db.DB

	// Audit receives a record of each deletion. Required.
	Audit Audit

	// Agent reports whether the agent is enabled. It returns api.NotFound if the tenant has no such
	// agent. Required.
	Agent func(ctx context.Context, tenantID, name string) (enabled bool, err error)

	// Endpoint returns the runtime of an agent. It returns api.AgentNotDeployed if the agent is not
	// deployed. Required.
	Endpoint func(ctx context.Context, tenantID, agentName string) (Endpoint, error)

	// Label returns the labels of a new answer, or nil for none. Defaults to none.
	Label func(ctx context.Context, tenantID string) (*aigc.Marker, error)

	// PushKey is the key with which programs push chats of any user. Defaults to none.
	PushKey string

	// ResolveOrg returns the tenant of a push with the key for the organization that the request
	// names, which may be "". Defaults to the tenant "default" for every organization.
	ResolveOrg func(ctx context.Context, org string) (tenantID string, err error)

	// OpenTimeout bounds the time in which a runtime accepts a run. Defaults to 30 s.
	OpenTimeout time.Duration

	// IdleTimeout bounds the time in which a runtime sends nothing, not even a comment, which it
	// sends every 15 s. Defaults to 60 s.
	IdleTimeout time.Duration

	// RunTimeout bounds the time of an answer. Defaults to 2 h.
	RunTimeout time.Duration

	// WriteTimeout bounds the time in which a client must read 64 KiB of an answer. Defaults to 30
	// s.
	WriteTimeout time.Duration

	// SaveEvery is the least time between two writes of an answer in progress. Defaults to 1 s.
	SaveEvery time.Duration

	// UserAnswers and AgentAnswers are the answers that may be in progress at once for a user and
	// for an agent, in all hubs. Default to 20 and 200.
	UserAnswers, AgentAnswers int

	// Now is the clock. Defaults to time.Now.
	Now func() time.Time

	// Logger receives errors of background work. Defaults to none.
	Logger *slog.Logger
}

func (c Config) withDefaults() (Config, error) {
	if c.DB == nil || c.Audit == nil || c.Agent == nil || c.Endpoint == nil {
		return c, errors.New("create chat service: DB, Audit, Agent and Endpoint are required")
	}
	if c.Label == nil {
		c.Label = func(context.Context, string) (*aigc.Marker, error) { return nil, nil } //nolint:nilnil // nil is the documented value of no label
	}
	if c.ResolveOrg == nil {
		c.ResolveOrg = func(context.Context, string) (string, error) { return "default", nil }
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	c.OpenTimeout = cmp.Or(c.OpenTimeout, 30*time.Second)
	c.IdleTimeout = cmp.Or(c.IdleTimeout, time.Minute)
	c.RunTimeout = cmp.Or(c.RunTimeout, 2*time.Hour)
	c.UserAnswers, c.AgentAnswers = cmp.Or(c.UserAnswers, 20), cmp.Or(c.AgentAnswers, 200)
	c.SaveEvery = cmp.Or(c.SaveEvery, time.Second)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c, nil
}

// Service is the chat part of the hub. It is safe for concurrent use.
type Service struct {
	cfg    Config
	db     *db.DB
	http   *http.Client // of all runtimes
	writer *writer
	memory budget

	deleted  chan struct{} // has an element if there are transcripts to delete
	stop     context.CancelFunc
	sweeping sync.WaitGroup
}

// New returns a Service on a migrated database. The caller must call Close.
func New(cfg Config) (*Service, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	transport := outbound.Transport()
	transport.MaxResponseHeaderBytes = 64 << 10
	// A client without a cookie jar, which follows no redirect: see package runtime/client.
	s := &Service{cfg: cfg, db: cfg.DB, http: &http.Client{Transport: transport}, memory: budget{byTenant: map[string]int{}}, deleted: make(chan struct{}, 1)}
	s.writer = startWriter(s)
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.sweeping.Go(func() { s.sweep(ctx) })
	return s, nil
}

// Close cancels the answers in progress, waits until they are stored, and ends the background work.
func (s *Service) Close() error {
	s.writer.close()
	s.stop()
	s.sweeping.Wait()
	s.http.CloseIdleConnections()
	return nil
}

// Routes returns all routes of this package.
func (s *Service) Routes() []api.Route {
	return slices.Concat(s.sessionRoutes(), s.messageRoutes(), s.adminRoutes(), s.pushRoutes())
}

// now returns the current time in microseconds, as it is stored.
func (s *Service) now() time.Time { return s.cfg.Now().UTC().Truncate(time.Microsecond) }

// enabledAgent fails with api.NotFound unless the tenant has the agent and it is enabled.
func (s *Service) enabledAgent(ctx context.Context, tenantID, name string) error {
	enabled, err := s.cfg.Agent(ctx, tenantID, name)
	if err == nil && !enabled {
		return api.NotFound.New("There is no such agent.")
	}
	return err
}
