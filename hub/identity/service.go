// Package identity manages the users of the hub: the member table with their roles, sign-in by
// password, sessions and their tokens, invites, and CLI tokens. It is the built-in mode of sign-in.
//
//	service, err := identity.New(ctx, identity.Config{Store: store, PublicURL: url})
//	if err != nil { ... }
//	defer service.Close()
//	handler, err := api.New(api.Config{Authenticate: service.Authenticate, ...}, service.Routes()...)
//
// A sign-in begins a session, which is a family of refresh tokens. Each refresh token is used once,
// for the next one and an access token that is valid for 15 minutes. A refresh token that is used
// again more than 10 seconds later ends the session. A session also ends 14 days after its last
// refresh and 90 days after it began.
//
// An access token is a JWT that is signed with a key of the hub and names its session. One of more
// than 4 KiB is rejected before it is decoded. The state of the session and the role of the user
// are looked up for each request, through a cache of at most 1.5 seconds. A change takes effect
// immediately in the process that makes it, and within 2 seconds in other replicas.
//
// Neither the database nor a log contains a password or a token. Passwords are stored as argon2id
// hashes, tokens as SHA-256 hashes. The signing keys are sealed.
//
// To replace the encryption key without an interruption, configure all replicas with "old,new",
// then all with "new,old", seal the columns of [Sealed] with the new key by [store.Store.Reseal], and
// configure all replicas with "new". A running replica that has only the old key continues to sign
// with the known signing key, which is replaced after at most 90 days. It continues to authenticate
// after that. [New] fails with only the old key.
package identity

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed93082962/agenthost/hub/store"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/db"
	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/rbac"
)

//go:embed migrations
var files embed.FS

// Migrations create the tables that New requires.
var Migrations = db.Embedded("identity", files)

// Config configures [New].
type Config struct {
	// Store has a database with Migrations and those of the audit log applied. Required.
	Store *store.Store

	// Withdraw is called in the transaction that deletes or disables a user, with no role, or that
	// changes the role, to withdraw what the user has read and may not read with that role. Defaults
	// to nothing.
	Withdraw func(ctx context.Context, tx *store.Tx, caller api.Caller, tenantID, userID string, role rbac.Role) error

	// PublicURL is the public address of the hub, without a path. It is the base of links. Required
	// if links are created.
	PublicURL string

	// SetupToken is the token of the first-run setup. Defaults to a generated one, see
	// [Service.SetupToken].
	SetupToken string

	// External selects external mode: users sign in with [Service.SignInExternal], and the routes
	// of setup, passwords and invitations are not found.
	External bool

	// Offline is for commands of an operator, which may run while hubs serve the database. An
	// offline Service creates no keys and no setup token, and has no background work.
	Offline bool

	hashCost cost // of passwords; tests set it
}

// Service is the identity part of the hub. It is safe for concurrent use.
type Service struct {
	cfg    Config
	store  *store.Store
	keys   *keyStore
	hasher *hasher
	tokens *tokenCache
	states *stateCache
	worker *worker

	watcher *watcher

	setup    string // the setup token that New generated, or ""
	setupRow string // of the setup token of this hub; "" if a user existed when it started
}

// New returns a Service on a migrated database. It creates the instance id and the first signing
// key if they do not exist. Replicas that start concurrently use the same ones. The caller must
// call Close.
func New(ctx context.Context, cfg Config) (*Service, error) {
	if cfg.Store == nil {
		return nil, errors.New("create identity service: Store is required")
	}
	cfg.PublicURL = strings.TrimRight(cfg.PublicURL, "/")
	if cfg.Withdraw == nil {
		cfg.Withdraw = func(context.Context, *store.Tx, api.Caller, string, string, rbac.Role) error { return nil }
	}
	s := &Service{cfg: cfg, store: cfg.Store, hasher: newHasher(cmp.Or(cfg.hashCost, passwordCost)), tokens: newTokenCache(), states: newStateCache()}
	if !cfg.Offline {
		if err := s.begin(ctx); err != nil {
			return nil, fmt.Errorf("create identity service: %w", err)
		}
	}
	if !cfg.Offline {
		s.worker, s.watcher = startWorker(s), startWatcher(s)
	}
	return s, nil
}

// begin creates the rows that the database of a new instance lacks.
func (s *Service) begin(ctx context.Context) error {
	var issuer string
	err := s.store.Change(ctx, store.Change{}, func(tx *store.Tx) (err error) {
		issuer, err = insertInstance(ctx, tx, ids.New(), tx.Now)
		return err
	})
	if err != nil {
		return db.Wrap("read instance id", err)
	}
	s.keys = &keyStore{store: s.store, issuer: issuer}
	if err := s.keys.load(ctx); err != nil {
		return err
	}
	if s.keys.shut != nil { // an incorrect keyring is an error at the start, not at the first sign-in
		return s.keys.shut
	}
	if s.keys.signer().id == "" {
		if err := s.keys.rotate(ctx, ""); err != nil {
			return err
		}
	}
	if s.cfg.External {
		return nil
	}
	return s.prepareSetup(ctx)
}

// Ready returns an error if the signing keys cannot be read or opened. Its copy of them is at most
// a minute old. An offline Service is always ready.
func (s *Service) Ready(ctx context.Context) error {
	if s.keys == nil {
		return nil
	}
	return s.keys.opened(ctx)
}

// Close ends the background work, and waits for it.
func (s *Service) Close() error {
	if s.worker != nil {
		s.watcher.close()
		s.worker.close()
	}
	return nil
}

// Routes returns the routes of this package in its mode. Those of external logins are of package
// external.
func (s *Service) Routes() []api.Route {
	login := s.passwordRoutes()
	if s.cfg.External {
		login = externalRoutes()
	}
	return slices.Concat(s.authRoutes(), login, s.userRoutes(), s.inviteRoutes(), s.cliTokenRoutes())
}
