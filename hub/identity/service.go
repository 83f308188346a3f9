// Package identity knows who the hub's users are: the member table with its roles, sign-in by password, sessions and their
// tokens, invites, and CLI tokens. It is the built-in mode of signing in.
//
//	service, err := identity.New(ctx, identity.Config{DB: database, Keyring: keyring, Audit: audit, PublicURL: url})
//	if err != nil { ... }
//	defer service.Close()
//	handler, err := api.New(api.Config{Authenticate: service.Authenticate, ...}, service.Routes()...)
//
// A sign-in begins a session, which is a family of refresh tokens: each is used once and gives the next, together with an
// access token of 15 minutes. One that is used again later than 10 seconds after it was ends the family. A session ends 14
// days after its last refresh and 90 days after it began.
//
// An access token is a JWT signed with the hub's own key. It says which session it belongs to; whether that still lives,
// and which role its user has, is looked up at each request, through a cache of at most 1.5 seconds that forgets at once
// what this process changes. So what one replica does acts in the others within 2 seconds.
//
// No password and no token stands in the database or in a log: passwords are kept as argon2id hashes, tokens as SHA-256,
// and the keys that sign are sealed.
//
// The keyring is changed without a gap in this order: all replicas get "old,new", then all get "new,old", then
// [Service.Rekey] seals with the new key what the old one has sealed, then all get "new". A replica that is left behind
// with the old key alone goes on with what it knows: it signs until the signing key is another, which is at most
// 90 days, and authenticates after that too. One that starts then is refused.
package identity

import (
	"cmp"
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/db"
	"github.com/seed93082962/agenthost/hub/secret"
	"github.com/seed93082962/agenthost/internal/ids"
)

//go:embed migrations
var files embed.FS

// Migrations make the tables that New expects.
var Migrations = db.Series{Name: "identity", Files: migrations()}

func migrations() fs.FS {
	sub, err := fs.Sub(files, "migrations")
	if err != nil {
		panic(err) // a constant of this file
	}
	return sub
}

// Audit is where changes are recorded: in their own transaction, or in one of their own.
type Audit interface {
	Append(ctx context.Context, records ...auditlog.Record) error
	AppendTx(ctx context.Context, tx *sql.Tx, records ...auditlog.Record) error
}

// Config says what a Service works with.
type Config struct {
	// DB is migrated with Migrations, and with those of Audit. Required.
	DB *db.DB

	// Keyring seals the keys that sign access tokens. Required.
	Keyring *secret.Keyring

	// Audit gets a record of each change, in the change's transaction: where it fails, so does the change. Required.
	Audit Audit

	// PublicURL is where the hub's users reach it, without a path behind it. Links begin with it. Required where links are
	// made.
	PublicURL string

	// SetupToken allows the first-run setup. Defaults to one that is made by New, see [Service.SetupToken].
	SetupToken string

	// Loopback says that the listener is reached from this machine alone: then a setup sent to a loopback Host, through no
	// proxy, needs no token.
	Loopback bool

	// Offline makes a Service for an operator's command, beside those that serve: it makes no keys and no setup token, and runs
	// nothing in the background.
	Offline bool

	// Now is the clock. Defaults to time.Now.
	Now func() time.Time

	// Logger gets what no caller is answered. Defaults to none.
	Logger *slog.Logger
}

// Service is the identity part of the hub. It is safe for concurrent use.
type Service struct {
	cfg    Config
	db     *db.DB
	keys   *keyStore
	hasher *hasher
	tokens *tokenCache
	states *stateCache
	worker *worker

	setup    string // the setup token that New made, or ""
	setupRow string // of the setup token of this hub, where there was no user when it started
}

// instanceID names the row of the instance table with the id that access tokens have as their issuer.
const instanceID = "id"

// New makes a Service on a migrated database: the instance id and the first signing key are made where there are none,
// and several replicas that start at once agree on them. Close it.
func New(ctx context.Context, cfg Config) (*Service, error) {
	if cfg.DB == nil || cfg.Keyring == nil || cfg.Audit == nil {
		return nil, errors.New("make identity service: DB, Keyring and Audit are required")
	}
	cfg.PublicURL = strings.TrimRight(cfg.PublicURL, "/")
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	s := &Service{cfg: cfg, db: cfg.DB, hasher: newHasher(), tokens: newTokenCache(), states: newStateCache()}
	if !cfg.Offline {
		if err := s.begin(ctx); err != nil {
			return nil, fmt.Errorf("make identity service: %w", err)
		}
	}
	if !cfg.Offline {
		s.worker = startWorker(s)
	}
	return s, nil
}

// begin makes what the database of a new instance lacks.
func (s *Service) begin(ctx context.Context) error {
	var issuer string
	err := s.db.Tx(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO instance (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING`,
			instanceID, ids.New())
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO tenants (id, created_at) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING`,
			DefaultTenant, db.Micros(s.now()))
		if err != nil {
			return err
		}
		return tx.QueryRowContext(ctx, `SELECT value FROM instance WHERE name = $1`, instanceID).Scan(&issuer)
	})
	if err != nil {
		return fault("read instance id", err)
	}
	s.keys = &keyStore{db: s.db, keyring: s.cfg.Keyring, now: s.cfg.Now, logger: s.cfg.Logger, issuer: issuer}
	if err := s.keys.load(ctx); err != nil {
		return err
	}
	if s.keys.shut != nil { // a keyring that is not the database's is told now, and not when somebody signs in
		return s.keys.shut
	}
	if s.keys.signer().id == "" {
		if err := s.keys.rotate(ctx, ""); err != nil {
			return err
		}
	}
	return s.prepareSetup(ctx)
}

// Close ends what runs beside requests, and waits for it.
func (s *Service) Close() error {
	if s.worker != nil {
		s.worker.close()
	}
	return nil
}

// Routes are all routes of this package.
func (s *Service) Routes() []api.Route {
	routes := append(s.authRoutes(), s.userRoutes()...)
	routes = append(routes, s.inviteRoutes()...)
	routes = append(routes, s.cliTokenRoutes()...)
	return append(routes, api.Route{Method: http.MethodGet, Path: "/auth/login", Access: api.Open, Hidden: true, Handle: notHere})
}

func (s *Service) authRoutes() []api.Route {
	const auth = "auth"
	return []api.Route{
		{Method: http.MethodGet, Path: "/.well-known/jwks.json", Access: api.Open, Handle: s.jwks},
		{Method: http.MethodGet, Path: "/auth/mode", Access: api.Open, Handle: s.mode},
		{Method: http.MethodPost, Path: "/auth/setup", Access: api.Open, Category: auth, Handle: s.withKeys(s.doSetup)},
		{Method: http.MethodPost, Path: "/auth/login", Access: api.Open, Category: auth, Handle: s.withKeys(s.login)},
		{Method: http.MethodPost, Path: "/auth/refresh", Access: api.Open, Category: auth, Handle: s.withKeys(s.refresh)},
		{Method: http.MethodPost, Path: "/auth/logout", Access: api.Open, Category: auth, Handle: s.logout},
		{Method: http.MethodPost, Path: "/auth/change-password", Access: api.SignedIn, Category: auth, Handle: s.changePassword},
		{Method: http.MethodGet, Path: "/auth/userinfo", Access: api.SignedIn, Category: auth, Handle: s.userinfo},
		{Method: http.MethodGet, Path: "/auth/sessions", Access: api.SignedIn, Category: auth, Handle: s.listSessions},
		{Method: http.MethodDelete, Path: "/auth/sessions/:id", Access: api.SignedIn, Category: auth, Handle: s.deleteSession},
	}
}

// notHere is for a path that built-in mode has with another method: GET /auth/login is of the external mode, and so is 404
// and not 405.
func notHere(http.ResponseWriter, *http.Request) error { return api.NotFound }

// withKeys is for handlers that sign: they do so within a transaction, where the database must not be asked for anything
// else, and so there is a fresh key to sign with before they begin.
func (s *Service) withKeys(handle func(http.ResponseWriter, *http.Request) error) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		if err := s.keys.ready(r.Context()); err != nil {
			return err
		}
		return handle(w, r)
	}
}
