// Package hub is the control plane as one http.Handler: users and their roles, sign-in, CLI tokens, and the audit log of
// all that they do, on SQLite or PostgreSQL.
//
//	h, err := hub.New(ctx, hub.Config{DatabaseURL: "sqlite://hub.db", EncryptionKeys: keys, PublicURL: "https://hub.example.com"})
//	if err != nil { ... }
//	defer h.Close()
//	http.ListenAndServe("127.0.0.1:8080", h)
//
// Several hubs may serve one PostgreSQL database. What one of them does to a user's rights acts at once there, and within
// two seconds in the others.
package hub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed93082962/agenthost/auditlog/sqlaudit"
	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/db"
	"github.com/seed93082962/agenthost/hub/identity"
	"github.com/seed93082962/agenthost/hub/secret"
)

// Config says what a hub works with.
type Config struct {
	// DatabaseURL is sqlite://PATH or postgres://... Required.
	DatabaseURL string

	// MaxConns bounds the connections to the database. Defaults to what hub/db holds for right.
	MaxConns int

	// EncryptionKeys are base64 of 32 bytes each, separated by commas, with which secrets in the database are sealed: the
	// first seals, all of them open. Required.
	EncryptionKeys string

	// PublicURL is where users reach the hub; links begin with it. Required unless Offline.
	PublicURL string

	// Loopback says that only this machine reaches the listener, and that nothing passes requests of others on to it: the first
	// admin is then made without a setup token.
	Loopback bool

	// Offline makes a hub for an operator's command beside those that serve: it neither makes nor migrates the database, and
	// runs nothing in the background.
	Offline bool

	// SetupToken is what the first-run setup asks for. Defaults to one that is made; [Hub.SetupToken] tells it.
	SetupToken string

	// TrustedProxies are the networks whose X-Forwarded-For is believed. Defaults to none.
	TrustedProxies []netip.Prefix

	// CORSOrigins are the origins whose pages may call from a browser, beside that of PublicURL. Defaults to none.
	CORSOrigins []string

	// AuditRetention is how long audit entries are kept; older ones are pruned, and the chain verifies from there. Defaults to
	// for ever.
	AuditRetention time.Duration

	// Version is what GET /health tells. Defaults to "devel".
	Version string

	// Logger gets what happens, never a secret. Defaults to none.
	Logger *slog.Logger

	// Now is the clock. Defaults to time.Now.
	Now func() time.Time
}

// Hub serves the API. Close it when no request is left.
type Hub struct {
	cfg      Config
	db       *db.DB
	audit    *sqlaudit.Store
	identity *identity.Service
	handler  http.Handler
	keyring  *secret.Keyring
	begin    time.Time
	draining atomic.Bool
	requests requests
	stop     context.CancelFunc // ends what runs in background
	running  sync.WaitGroup
}

// New opens the database, brings it up to date, and makes a hub of it.
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
		return nil, errors.New("make hub: PublicURL is required: links begin with it")
	}
	h := &Hub{cfg: cfg, begin: cfg.Now(), stop: func() {}}
	if h.keyring, err = secret.Parse(cfg.EncryptionKeys); err != nil {
		return nil, fmt.Errorf("read encryption keys: %w", err)
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
	h.audit, err = sqlaudit.New(sqlaudit.Config{Write: h.db.Write(), Read: h.db.Read(), Engine: string(h.db.Engine()), Now: cfg.Now})
	if err != nil {
		return nil, err
	}
	h.identity, err = identity.New(ctx, identity.Config{
		DB: h.db, Keyring: h.keyring, Audit: h.audit, PublicURL: cfg.PublicURL,
		SetupToken: cfg.SetupToken, Loopback: cfg.Loopback, Offline: cfg.Offline, Now: cfg.Now, Logger: cfg.Logger,
	})
	if err != nil {
		return nil, err
	}
	h.handler, err = api.New(api.Config{
		Logger: cfg.Logger, PublicURL: cfg.PublicURL, TrustedProxies: cfg.TrustedProxies, CORSOrigins: cfg.CORSOrigins,
		Authenticate: h.identity.Authenticate, Denied: h.denied, Translate: translate,
	}, h.Routes()...)
	if err != nil {
		return nil, err
	}
	if cfg.AuditRetention > 0 && !cfg.Offline {
		background, stop := context.WithCancel(context.WithoutCancel(ctx))
		h.stop = stop
		h.running.Go(func() { h.retain(background) })
	}
	return h, nil
}

// prepare brings the database up to date, or sees that it is.
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

// Routes is the whole API: every route, and who may call it.
func (h *Hub) Routes() []api.Route {
	return slices.Concat(h.healthRoutes(), h.identity.Routes(), h.auditRoutes())
}

// migrations are those of all concerns.
func (h *Hub) migrations() []db.Series {
	return []db.Series{{Name: "audit", Files: sqlaudit.Migrations()}, identity.Migrations}
}

// translate knows the errors of packages that know no HTTP.
func translate(err error) *api.Error {
	if db.Unavailable(err) || errors.Is(err, context.DeadlineExceeded) { // the time that a wait for the database may take was up
		return &api.Error{Code: api.Unavailable, RetryAfter: time.Second, Cause: err}
	}
	return nil
}

// PublicURL is where users reach the hub, without a slash at the end.
func (h *Hub) PublicURL() string { return h.cfg.PublicURL }

// SetupToken is what the first-run setup asks for, and "" when that was done.
func (h *Hub) SetupToken() string { return h.identity.SetupToken() }

// ResetPassword gives the user a new password and returns it. The user's sessions end, and CLI tokens are revoked.
func (h *Hub) ResetPassword(ctx context.Context, username string) (string, error) {
	return h.identity.ResetPassword(ctx, username)
}

// Rekey seals everything with the first encryption key, and returns how many secrets were sealed with another.
func (h *Hub) Rekey(ctx context.Context) (int, error) { return h.identity.Rekey(ctx) }

// Close ends what runs in the background, writes what waits to be written, and closes the database.
func (h *Hub) Close() error {
	h.stop()
	h.running.Wait()
	var errs []error
	if h.identity != nil {
		errs = append(errs, h.identity.Close())
	}
	if h.audit != nil {
		errs = append(errs, h.audit.Close())
	}
	return errors.Join(append(errs, h.db.Close())...)
}
