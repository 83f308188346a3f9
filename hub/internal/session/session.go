// Package session signs users in and knows who sends a request: logins by password, sessions and
// their refresh tokens, and the callers of access tokens and CLI tokens.
//
//	service, err := session.New(session.Config{
//		Store: store, Users: users, Passwords: passwords, Keys: keys,
//	})
//	if err != nil { ... }
//	defer service.Close()
//	cfg := api.Config{Authenticate: service.Authenticate, Admit: service.Admit}
//	handler, err := api.New(cfg, service.Routes()...)
//
// A sign-in begins a session, which is a family of refresh tokens. Each refresh token is used once,
// for the next one and an access token that is valid for 15 minutes. A refresh token that is used
// again more than 10 seconds later ends the session. A session also ends 14 days after its last
// refresh and 90 days after it began. A session can begin another one for a program on the same
// computer.
//
// The state of the session and the role of the user are looked up for each request, through a cache
// of at most 1.5 seconds. A change takes effect immediately in the process that makes it, and
// within 2 seconds in other replicas.
//
// Neither the database nor a log contains a password or a token. Passwords are stored as argon2id
// hashes, tokens as SHA-256 hashes.
package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/clitoken"
	"github.com/seed93082962/agenthost/hub/internal/password"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/internal/token"
	"github.com/seed93082962/agenthost/hub/internal/user"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/rbac"
)

const (
	sessionIdle  = 14 * 24 * time.Hour // since the last refresh
	sessionLimit = 90 * 24 * time.Hour // since the login
	maxSessions  = 100                 // live sessions of a user, and as many ended ones
)

// Config configures [New].
type Config struct {
	// Store has a database with the migrations of package user applied. Required.
	Store *store.Store

	// Users, Passwords, CLITokens and Keys are those of the hub. Required; Keys are nil if Offline.
	Users     *user.Service
	Passwords *password.Service
	CLITokens *clitoken.Service
	Keys      *token.Keys

	// External selects external mode: users sign in with [Service.SignInExternal], and the routes
	// of setup, passwords and invitations are not found.
	External bool

	// Offline is for commands of an operator. An offline Service has no background work.
	Offline bool
}

// Service is safe for concurrent use.
type Service struct {
	cfg       Config
	store     *store.Store
	users     *user.Service
	passwords *password.Service
	keys      *token.Keys
	cliTokens *clitoken.Service
	pages     *api.Limiter // of refreshes, by session

	states  *stateCache
	worker  *worker
	watcher *watcher
	metrics metrics

	stop    context.CancelFunc // ends the worker and the watcher
	running sync.WaitGroup
}

// New returns a Service. The caller must call Close.
func New(cfg Config) (*Service, error) {
	if cfg.Store == nil || cfg.Users == nil || cfg.Passwords == nil || cfg.CLITokens == nil || cfg.Keys == nil && !cfg.Offline {
		return nil, errors.New("create session service: Store, Users, Passwords, CLITokens and Keys are required")
	}

	s := &Service{
		cfg: cfg, store: cfg.Store, users: cfg.Users, passwords: cfg.Passwords, keys: cfg.Keys, cliTokens: cfg.CLITokens,
		pages: api.NewLimiter(maxPageRefreshes, cfg.Store.Now), states: newStateCache(), stop: func() {},
	}
	var err error
	if s.metrics, err = newMetrics(cfg.Store.MeterProvider, cfg.Passwords.Load); err != nil {
		return nil, fmt.Errorf("create session service: %w", err)
	}

	if !cfg.Offline {
		background, stop := context.WithCancel(context.Background())
		s.stop = stop
		s.watcher = &watcher{s: s, wake: make(chan struct{}, 1), open: map[*watched]struct{}{}, changed: map[string]bool{}}
		s.worker = &worker{s: s, wake: make(chan struct{}, 1), uses: map[use]seen{}}
		s.running.Go(func() { s.watcher.run(background) })
		s.running.Go(func() { s.worker.run(background) })
	}

	cfg.Users.OnChange(s.forget)
	return s, nil
}

// Ready returns an error if the signing keys cannot be read or opened. Its copy of them is at most
// a minute old. An offline Service is always ready.
func (s *Service) Ready(ctx context.Context) error {
	if s.keys == nil {
		return nil
	}

	return s.keys.Opened(ctx)
}

// Close ends the background work, and waits for it.
func (s *Service) Close() error {
	s.metrics.stop()
	s.stop()
	s.running.Wait()
	return nil
}

// forget removes the sessions and CLI tokens of the user from the cache of this process, and checks
// the requests of the user in progress.
func (s *Service) forget(userID string) {
	s.states.forget(userID)
	if s.watcher != nil { // not offline
		s.watcher.userChanged(userID)
	}
}

// SignIn is a session with its first or next pair of tokens.
type SignIn struct {
	wire.Login

	session string // its id, for the audit log
	evicted int    // sessions that ended to make room for this one
}

// begin begins a session of a user in the transaction of the sign-in. Its device is a new one if o
// has none.
func (s *Service) begin(ctx context.Context, tx *store.Tx, u user.User, from api.Caller, o origin) (SignIn, error) {
	o.id = ids.New()
	o.device = cmp.Or(o.device, o.id)
	o.idle = tx.Now.Add(sessionIdle)
	o.limit = tx.Now.Add(sessionLimit)
	if err := insertSession(ctx, tx, u, o, from); err != nil {
		return SignIn{}, err
	}

	signIn, err := s.newTokens(ctx, tx, u, o)
	if err != nil {
		return SignIn{}, err
	}

	signIn.evicted, err = evictSessions(ctx, tx, u, o.id)
	return signIn, err
}

// newTokens issues the next pair of tokens of a session, and the token of its device. None of the
// pair is valid after the limit of the session.
func (s *Service) newTokens(ctx context.Context, tx *store.Tx, u user.User, o origin) (SignIn, error) {
	refresh, hash := token.Random("rt_")
	if err := insertRefreshToken(ctx, tx, hash, o.id); err != nil {
		return SignIn{}, err
	}

	device, err := s.deviceToken(u, o.device)
	if err != nil {
		return SignIn{}, err
	}

	signIn, err := s.access(u, o.id, tx.Now, o.limit)
	signIn.RefreshToken = refresh
	signIn.RefreshExpiresIn = seconds(earlier(tx.Now.Add(sessionIdle), o.limit).Sub(tx.Now))
	signIn.DeviceToken = device
	return signIn, err
}

// access returns a session with an access token, which is not valid after limit, and without other
// tokens.
func (s *Service) access(u user.User, session string, now, limit time.Time) (SignIn, error) {
	expires := earlier(now.Add(token.Life), limit)
	access, err := s.keys.Sign(token.Claims{
		Subject: u.ID, Session: session, TenantID: u.TenantID, Name: u.DisplayName, Role: u.Role, IssuedAt: now, ExpiresAt: expires,
	})
	if err != nil {
		return SignIn{}, err
	}

	granted := wire.Access{
		AccessToken: access, TokenType: "Bearer", ExpiresIn: seconds(expires.Sub(now)),
		User:               wire.LoginUser{ID: u.ID, Username: u.Username, DisplayName: u.DisplayName, Role: u.Role, TenantID: u.TenantID, OrgID: u.TenantID},
		MustChangePassword: u.MustChange,
	}
	return SignIn{Login: wire.Login{Access: granted}, session: session}, nil
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}

	return a
}

func seconds(d time.Duration) int64 { return int64(d / time.Second) }

// Setup creates the first user, an admin, and signs the user in.
func (s *Service) Setup(ctx context.Context, from api.Caller, in wire.SetupRequest) (SignIn, error) {
	return signInNew(ctx, s, from, in, s.users.Setup)
}

// Register creates the user of an invitation and signs the user in.
func (s *Service) Register(ctx context.Context, from api.Caller, in wire.RegisterRequest) (SignIn, error) {
	return signInNew(ctx, s, from, in, s.users.Register)
}

// signInNew calls create, and signs the new user in.
func signInNew[In any](ctx context.Context, s *Service, from api.Caller, in In,
	create func(context.Context, api.Caller, In, user.SignIn) error) (SignIn, error) {
	if err := s.keys.Ready(ctx); err != nil {
		return SignIn{}, err
	}

	var signIn SignIn
	err := create(ctx, from, in, func(ctx context.Context, tx *store.Tx, u user.User) (err error) {
		signIn, err = s.begin(ctx, tx, u, from, origin{})
		return err
	})
	return signIn, err
}

// Sessions returns the live sessions of the caller, the last used first.
func (s *Service) Sessions(ctx context.Context, caller api.Caller, page api.Page) (api.List[wire.Session], error) {
	items, total, err := s.liveSessions(ctx, caller, caller.UserID, page)
	return api.List[wire.Session]{Items: items, Total: total}, err
}

// UserSessions returns the live sessions of a user, the last used first.
func (s *Service) UserSessions(ctx context.Context, caller api.Caller, id string, page api.Page) (api.List[wire.Session], error) {
	u, err := user.Of(ctx, s.store.Read(), caller, id)
	if err != nil {
		return api.List[wire.Session]{}, err
	}

	items, total, err := s.liveSessions(ctx, caller, u.ID, page)
	return api.List[wire.Session]{Items: items, Total: total}, err
}

// RevokeSession ends a session of the caller.
func (s *Service) RevokeSession(ctx context.Context, caller api.Caller, id string) error {
	id, err := user.ParseID(id)
	if err != nil {
		return err
	}

	err = s.users.Change(ctx, caller, rbac.Group{}, func(tx *store.Tx) error {
		ended, err := endSession(ctx, tx, caller.TenantID, caller.UserID, id, user.EndedByRevoke)
		if err != nil {
			return err
		}

		if !ended {
			return wire.NotFound.New("You have no such session, or it has ended.")
		}

		tx.Record(actionRevokeSession.Record(target(caller.Event(), id, caller.UserName), sessionDetail{SessionID: id}))
		return nil
	})
	s.forget(caller.UserID)
	return err
}

// EndUserSessions ends all live sessions of a user, with an audit entry for each, and revokes the
// device tokens of the user. These may be the caller's own.
func (s *Service) EndUserSessions(ctx context.Context, caller api.Caller, id string) error {
	var u user.User
	err := s.users.Change(ctx, caller, rbac.AdminOnly, func(tx *store.Tx) (err error) {
		if u, err = user.Of(ctx, tx, caller, id); err != nil {
			return err
		}

		ended, err := user.EndSessions(ctx, tx, u, "", user.EndedByRevoke)
		for _, id := range ended {
			tx.Record(actionRevokeSession.Record(target(caller.Event(), id, u.Username), sessionDetail{SessionID: id}))
		}

		return err
	})
	s.forget(u.ID)
	return err
}

// target returns e with a session of the named user as its target.
func target(e auditlog.Event, id, username string) auditlog.Event {
	return e.WithTarget("session", id, username)
}

// The audit actions of this package. A detail lists every field that an entry of the action can
// contain, and never a secret.
var (
	actionLogin          = auditlog.Define[sessionDetail]("auth.login")
	actionLogout         = auditlog.Define[sessionDetail]("auth.logout")
	actionRefreshReuse   = auditlog.Define[sessionDetail]("auth.refresh_reuse")
	actionChangePassword = auditlog.Define[changePasswordDetail]("auth.change_password")
	actionRevokeSession  = auditlog.Define[sessionDetail]("auth.revoke_session")
	actionAuthorize      = auditlog.Define[sessionDetail]("auth.authorize_program")

	actionExternalLogin     = auditlog.Define[externalLoginDetail]("auth.external_login")
	actionBackchannelLogout = auditlog.Define[backchannelLogoutDetail]("auth.backchannel_logout")
)

type (
	sessionDetail struct {
		SessionID string `json:"sessionId"`
	}
	changePasswordDetail struct {
		Reason        string `json:"reason,omitempty"`   // of a failure: invalid_credentials
		Attempts      int    `json:"attempts,omitempty"` // that the entry of a failure represents, if more than one
		SessionsEnded int    `json:"sessionsEnded"`
	}
	externalLoginDetail struct {
		SessionID string `json:"sessionId"`
		Issuer    string `json:"issuer"`
		Created   bool   `json:"created"` // the first login of the user
		Role      string `json:"role"`

		Groups []string `json:"groups,omitempty"` // at the identity provider
	}
	backchannelLogoutDetail struct {
		Issuer        string `json:"issuer"`
		SessionsEnded int    `json:"sessionsEnded"`
		TokensRevoked int    `json:"tokensRevoked,omitempty"`
	}
)
