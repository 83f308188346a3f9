// Package clitoken manages the CLI tokens of users: long-lived credentials of programs, which have
// the current role of their user. Package session authenticates them.
//
//	tokens := clitoken.New(store, users)
//	issued, err := tokens.Issue(ctx, caller, wire.IssueTokenRequest{Name: "ci"})
package clitoken

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/internal/token"
	"github.com/seed93082962/agenthost/hub/internal/user"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/rbac"
)

const (
	// Prefix begins each CLI token.
	Prefix = "cli_"

	maxName  = 100 // characters
	maxDays  = 365
	maxValid = 100             // tokens of a user, and as many revoked ones
	shown    = len(Prefix) + 8 // characters that identify the token to its owner
	day      = 24 * time.Hour
)

// Service is safe for concurrent use.
type Service struct {
	store *store.Store
	users *user.Service
}

// New returns a Service on a database with the migrations of package user applied.
func New(s *store.Store, users *user.Service) *Service { return &Service{store: s, users: users} }

// Token is a CLI token as stored, and in JSON as its owner and administrators see it.
type Token struct {
	wire.Token

	TenantID string `json:"-"`
	UserID   string `json:"-"`
}

// Issue creates a CLI token of the caller. A caller with a CLI token may do so too, for at most as
// long as its own is valid.
func (s *Service) Issue(ctx context.Context, caller api.Caller, in wire.IssueTokenRequest) (wire.NewToken, error) {
	fields := api.Fields{}
	in.Name = fields.Line("name", in.Name, 1, maxName)
	if in.ExpiresInDays != nil && (*in.ExpiresInDays < 1 || *in.ExpiresInDays > maxDays) {
		fields.Add("expiresInDays", "must be an integer from 1 to 365, or null for a token that does not expire")
	}

	if err := fields.Err(); err != nil {
		return wire.NewToken{}, err
	}

	raw, hash := token.Random(Prefix)
	var out wire.NewToken
	err := s.users.Change(ctx, caller, rbac.AdminWrite, func(tx *store.Tx) error {
		t := newToken(tx, caller.TenantID, caller.UserID, in.Name, raw)
		if err := checkTokens(ctx, tx, t); err != nil {
			return err
		}

		own, err := expiryOf(ctx, tx, caller)
		if err != nil {
			return err
		}

		t.ExpiresAt = own

		if in.ExpiresInDays != nil {
			expires := tx.Now.Add(time.Duration(*in.ExpiresInDays) * day)
			if t.ExpiresAt.IsZero() || expires.Before(t.ExpiresAt.Time) {
				t.ExpiresAt = wire.Time{Time: expires}
			}
		}

		out = wire.NewToken{ID: t.ID, Name: t.Name, Token: raw, Prefix: t.Prefix, CreatedAt: t.CreatedAt, ExpiresAt: t.ExpiresAt}
		tx.Record(actionIssue.Record(t.target(caller.Event()), issueDetail{Prefix: t.Prefix, ExpiresAt: t.expiry()}))
		return insertToken(ctx, tx, t, hash)
	})
	return out, err
}

// IssueOffline returns a CLI token of an active admin that is valid for an hour. It is recorded,
// and is for the operator of the hub while the identity provider is unavailable.
func (s *Service) IssueOffline(ctx context.Context, name user.AdminName) (string, error) {
	raw, hash := token.Random(Prefix)
	err := s.users.ForAdmin(ctx, "issue token of", name, func(tx *store.Tx, u user.User) error {
		t := newToken(tx, u.TenantID, u.ID, "hub admin-token", raw)
		t.ExpiresAt = wire.Time{Time: tx.Now.Add(time.Hour)}
		e := t.target(auditlog.Event{TenantID: u.TenantID})
		tx.Record(actionIssue.Record(e, issueDetail{Prefix: t.Prefix, ExpiresAt: t.expiry(), Offline: true}))
		return insertToken(ctx, tx, t, hash)
	})
	if err != nil {
		return "", err
	}

	return raw, nil
}

func newToken(tx *store.Tx, tenantID, userID, name, raw string) Token {
	t := wire.Token{ID: ids.New(), Name: name, Prefix: raw[:shown], CreatedAt: wire.Time{Time: tx.Now}}
	return Token{Token: t, TenantID: tenantID, UserID: userID}
}

// Tokens returns the CLI tokens of the caller that were not revoked, the newest first. Expired
// tokens are included.
func (s *Service) Tokens(ctx context.Context, caller api.Caller, page api.Page) (api.List[Token], error) {
	items, total, err := tokensOf(ctx, s.store.Read(), caller.TenantID, caller.UserID, page)
	return api.List[Token]{Items: items, Total: total}, err
}

// UserTokens returns the CLI tokens of a user that were not revoked, the newest first.
func (s *Service) UserTokens(ctx context.Context, caller api.Caller, id string, page api.Page) (api.List[Token], error) {
	u, err := user.Of(ctx, s.store.Read(), caller, id)
	if err != nil {
		return api.List[Token]{}, err
	}

	items, total, err := tokensOf(ctx, s.store.Read(), u.TenantID, u.ID, page)
	return api.List[Token]{Items: items, Total: total}, err
}

// Revoke revokes a CLI token of the caller.
func (s *Service) Revoke(ctx context.Context, caller api.Caller, id string) error {
	return s.revokeOf(ctx, caller, id, rbac.AdminWrite, func(*store.Tx) (user.User, error) { return user.Self(caller), nil })
}

// RevokeOfUser revokes a CLI token of a user.
func (s *Service) RevokeOfUser(ctx context.Context, caller api.Caller, id, tokenID string) error {
	return s.revokeOf(ctx, caller, tokenID, rbac.AdminOnly, func(tx *store.Tx) (user.User, error) {
		return user.Of(ctx, tx, caller, id)
	})
}

// revokeOf revokes a CLI token of the user that find returns.
func (s *Service) revokeOf(ctx context.Context, caller api.Caller, id string, group rbac.Group, find func(*store.Tx) (owner user.User, err error)) error {
	id, err := user.ParseID(id)
	if err != nil {
		return err
	}

	var owner user.User
	err = s.users.Change(ctx, caller, group, func(tx *store.Tx) (err error) {
		if owner, err = find(tx); err != nil {
			return err
		}

		return revoke(ctx, tx, caller, owner, id)
	})
	s.users.Changed(owner.ID)
	return err
}

// RevokeCaller revokes the CLI token that sent the request. It fails with wire.TokenRevoked if it
// was revoked.
func (s *Service) RevokeCaller(ctx context.Context, caller api.Caller) error {
	err := s.store.Change(ctx, store.Change{}, func(tx *store.Tx) error {
		err := revoke(ctx, tx, caller, user.Self(caller), caller.TokenID)
		if errors.Is(err, wire.NotFound) {
			return wire.TokenRevoked
		}

		return err
	})
	s.users.Changed(caller.UserID)
	return err
}

func revoke(ctx context.Context, tx *store.Tx, caller api.Caller, owner user.User, id string) error {
	t, err := revokeToken(ctx, tx, owner.TenantID, owner.ID, id)
	if err != nil {
		return err
	}

	tx.Record(actionRevoke.Record(t.target(caller.Event()), revokeDetail{Owner: owner.Username, Prefix: t.Prefix, ExpiresAt: t.expiry()}))
	return nil
}

// Sweep deletes the tokens that ended long ago.
func (s *Service) Sweep(ctx context.Context) error {
	return deleteTokens(ctx, s.store.DB.Write(), s.store.Now().Add(-user.KeepShown))
}

var (
	actionIssue  = auditlog.Define[issueDetail]("token.issue")
	actionRevoke = auditlog.Define[revokeDetail]("token.revoke")
)

type (
	issueDetail struct {
		Prefix    string  `json:"prefix"`            // the first characters, which identify it to its owner
		ExpiresAt *string `json:"expiresAt"`         // an wire.Time; null for a token that does not expire
		Offline   bool    `json:"offline,omitempty"` // on the hub's machine, by hub admin-token
	}
	revokeDetail struct {
		Owner     string  `json:"owner"` // the username of the owner, who may not be the caller
		Prefix    string  `json:"prefix"`
		ExpiresAt *string `json:"expiresAt"`
	}
)

// target returns e with the token as its target.
func (t Token) target(e auditlog.Event) auditlog.Event {
	return e.WithTarget("token", t.ID, t.Name)
}

// expiry returns the expiry in the form of audit details, or nil.
func (t Token) expiry() *string {
	if t.ExpiresAt.IsZero() {
		return nil
	}

	text := t.ExpiresAt.String()
	return &text
}

// Routes returns the routes of CLI tokens.
func (s *Service) Routes() []api.Route {
	own := func(method, path string, handle api.Handler) api.Route {
		return api.Route{Method: method, Path: "/api/v1/cli" + path, Group: rbac.AdminWrite, Category: "token", Handle: handle}
	}
	ofUser := func(method, path string, handle api.Handler) api.Route {
		return api.Route{Method: method, Path: "/api/v1/admin/users/:id/tokens" + path, Group: rbac.AdminOnly, Category: "user", Handle: handle}
	}
	return []api.Route{
		own(http.MethodPost, "/issue-token", api.Call(http.StatusCreated, s.Issue)),
		own(http.MethodGet, "/tokens", api.ListOf(s.Tokens)),
		own(http.MethodDelete, "/tokens/:id", api.DoneBy("id", s.Revoke)),
		ofUser(http.MethodGet, "", api.ListBy("id", s.UserTokens)),
		ofUser(http.MethodDelete, "/:tokenId", api.Done(func(r *http.Request) error {
			return s.RevokeOfUser(r.Context(), api.CallerOf(r), r.PathValue("id"), r.PathValue("tokenId"))
		})),
	}
}
