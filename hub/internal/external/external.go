// Package external signs users in with identity providers: OpenID Connect and Casdoor. Each
// organization has its own client, which operators register with [Service.UpsertClient], and each
// organization is a tenant.
//
//	service, err := external.New(external.Config{Store: store, Sessions: sessions, PublicURL: url})
//	if err != nil { ... }
//	defer service.Close()
//	handler, err := api.New(cfg, append(service.Routes(), sessions.Routes()...)...)
//
// A login is an authorization code flow with PKCE. Its state, nonce and verifier are in the
// database, so that any replica can complete it. It belongs to the browser that started it, by a
// cookie, works once, and ends after ten minutes. The sessions are those of package session: no
// token of an identity provider is stored, logged or sent to a browser.
//
// Calls of identity providers take at most 10 s, read at most 1 MiB, and never hold a transaction.
// A token has at most 64 KiB. A provider that does not respond makes its own logins fail with 503
// and affects nothing else.
package external

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed93082962/agenthost/hub/internal/store"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/session"
	"github.com/seed93082962/agenthost/internal/db"
)

//go:embed migrations
var files embed.FS

// Migrations create the tables that New requires, after those of package user.
var Migrations = db.Embedded("external", files)

// GlobalClient is the client of the organization "default", for a hub without registered
// organizations.
type GlobalClient struct {
	Issuer       string
	ClientID     string
	ClientSecret string
	Cert         string // PEM, instead of the keys that the issuer publishes. Optional.
	GroupsClaim  string // the name of the claim with the groups of a user. Optional.
}

// Config configures [New].
type Config struct {
	// Store has a database with the migrations applied. Required.
	Store *store.Store

	// Sessions begins and ends the sessions. Required for logins.
	Sessions *session.Service

	// PublicURL is the public address of the hub, without a path. The identity providers redirect
	// to its path /auth/callback/ORG, those of Global to /auth/callback. Required for logins.
	PublicURL string

	// Logins enables the routes of logins. Without it, clients can only be registered.
	Logins bool

	// Program reports that the program that contains the hub has users of its own.
	Program bool

	// Global is the client for organizations that are not registered. Defaults to none.
	Global GlobalClient

	// BootstrapAdmins are users, as "organization/sub:subject" or "organization/username", who become
	// admin at their first login. Both are compared exactly. A username may be given to another user
	// later, a subject is not.
	BootstrapAdmins []string

	// HasData reports whether the tenant has data of other concerns than package user. Defaults
	// to none.
	HasData func(ctx context.Context, tx *store.Tx, tenantID string) (bool, error)

	// EndDeployments replaces the keys of all deployments of the tenant, and stops them if stop is
	// true. It returns their number. Defaults to no deployments.
	EndDeployments func(ctx context.Context, tx *store.Tx, tenantID string, stop bool) (n int, err error)

	// OpsKey is the key of the operations interface. Defaults to none: it is then not found.
	OpsKey string

	Offline bool // no background work
}

// Service is safe for concurrent use.
type Service struct {
	cfg     Config
	store   *store.Store
	http    *http.Client
	global  *client // or nil
	admins  map[admin]bool
	starts  *networkLimit
	logouts *networkLimit
	checks  atomic.Int64 // signatures that were verified

	mu        sync.Mutex      // guards providers
	providers map[string]*idp // by issuer

	stop    context.CancelFunc // ends the sweep
	running sync.WaitGroup
}

// New returns a Service. The caller must call Close.
func New(cfg Config) (*Service, error) {
	if cfg.Store == nil || cfg.Logins && (cfg.Sessions == nil || cfg.PublicURL == "" && !cfg.Offline) {
		return nil, errors.New("make external service: Store, and for logins Sessions and PublicURL are required")
	}

	if cfg.HasData == nil {
		cfg.HasData = func(context.Context, *store.Tx, string) (bool, error) { return false, nil }
	}

	if cfg.EndDeployments == nil {
		cfg.EndDeployments = func(context.Context, *store.Tx, string, bool) (int, error) { return 0, nil }
	}

	cfg.PublicURL = strings.TrimRight(cfg.PublicURL, "/")
	s := &Service{
		cfg: cfg, store: cfg.Store, http: newHTTPClient(), admins: map[admin]bool{}, providers: map[string]*idp{},
		starts: newNetworkLimit(cfg.Store.Now), logouts: newNetworkLimit(cfg.Store.Now),
	}
	for _, text := range cfg.BootstrapAdmins {
		a, err := parseAdmin(text)
		if err != nil {
			return nil, fmt.Errorf("make external service: bootstrap admin %q: %w", text, err)
		}

		s.admins[a] = true
	}

	if cfg.Global != (GlobalClient{}) {
		var err error
		if s.global, err = s.globalClient(); err != nil {
			return nil, fmt.Errorf("make external service: global client: %w", err)
		}
	}

	background, stop := context.WithCancel(context.Background())
	s.stop = stop
	if !cfg.Offline {
		s.running.Go(func() { s.sweep(background) })
	}

	return s, nil
}

// admin names a user of an organization by the exact username or subject at the identity provider;
// one of the two is "".
type admin struct{ org, username, subject string }

// parseAdmin reads organization/username or organization/sub:subject.
func parseAdmin(text string) (admin, error) {
	org, name, _ := strings.Cut(text, "/")
	subject, bySubject := strings.CutPrefix(name, "sub:")
	switch {
	case !orgForm.MatchString(org) || name == "" || bySubject && !isSubject(subject) || !bySubject && strings.Contains(name, "/"):
		return admin{}, errors.New("it must have the form organization/username or organization/sub:subject")
	case bySubject:
		return admin{org: org, subject: subject}, nil
	}

	return admin{org: org, username: name}, nil
}

// CheckAdmin returns an error if the text is not a valid item of Config.BootstrapAdmins.
func CheckAdmin(text string) error {
	_, err := parseAdmin(text)
	return err
}

// Routes returns the routes that the Config enables.
func (s *Service) Routes() []api.Route {
	var all []api.Route
	if s.cfg.Logins {
		all = s.loginRoutes()
	}

	if s.cfg.OpsKey != "" {
		all = append(all, s.clientRoutes()...)
	}

	return all
}

// sweepEvery is the interval at which expired rows are deleted.
const sweepEvery = time.Minute

func (s *Service) sweep(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		if err := deleteExpired(ctx, s.store.DB.Write(), s.store.Now()); err != nil && ctx.Err() == nil {
			s.store.Logger.Warn("deleting expired rows failed", "err", err)
		}

		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// Close ends the background work.
func (s *Service) Close() error {
	s.stop()
	s.running.Wait()
	s.http.CloseIdleConnections()
	return nil
}
