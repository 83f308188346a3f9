// Package user manages the users of the hub, their roles, and the ways to become one: invitations
// and the first-run setup. Its migrations are those of all packages of sign-in.
//
//	passwords := password.New(password.Config{Store: store})
//	users, err := user.New(ctx, user.Config{Store: store, Passwords: passwords, PublicURL: url})
//	if err != nil { ... }
//	created, err := users.CreateUser(ctx, caller, wire.CreateUserRequest{
//		Username: "ada", Password: first, Role: "member",
//	})
//	invite, err := users.CreateInvite(ctx, caller, bodies.CreateInviteRequest{Role: "member"})
//
// A change of a user excludes all others of the tenant, and commits only if its caller has the
// permission at that moment. One active admin always remains.
package user

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/bodies"
	"github.com/seed93082962/agenthost/hub/internal/password"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/rbac"
)

//go:embed migrations
var files embed.FS

// Migrations create the tables of users, sessions, tokens and signing keys. Their name is that of
// the package which all of them were once in.
var Migrations = db.Embedded("identity", files)

// Config configures [New].
type Config struct {
	// Store has a database with Migrations and those of the audit log applied. Required.
	Store *store.Store

	// Passwords hashes the passwords. Required.
	Passwords *password.Service

	// Withdraw is called in the transaction that deletes or disables a user, with no role, or that
	// changes the role, to withdraw what the user has read and may not read with that role. Defaults
	// to nothing.
	Withdraw func(ctx context.Context, tx *store.Tx, caller api.Caller, tenantID, userID string, role rbac.Role) error

	// Deleted is called at the end of the transaction that deletes a user, to delete what other
	// packages have for the user. Defaults to nothing.
	Deleted func(ctx context.Context, tx *store.Tx, u User) error

	// PublicURL is the public address of the hub, without a path. It is the base of links. Required
	// if links are created.
	PublicURL string

	// SetupToken is the token of the first-run setup. Defaults to a generated one, see
	// [Service.SetupToken].
	SetupToken string

	// External selects external mode: users sign in with an identity provider, and nothing creates a
	// password.
	External bool

	// Program reports that the program that contains the hub has users of its own.
	Program bool

	// Offline is for commands of an operator, which may run while hubs serve the database. An
	// offline Service creates no setup token.
	Offline bool
}

// Service is safe for concurrent use.
type Service struct {
	cfg       Config
	store     *store.Store
	passwords *password.Service
	onChange  func(userID string)

	setup    string // the setup token that New generated, or ""
	setupRow string // of the setup token of this hub; "" if a user existed when it started
}

// New returns a Service on a migrated database. It creates the default tenant and the setup token
// if they are needed.
func New(ctx context.Context, cfg Config) (*Service, error) {
	if cfg.Store == nil || cfg.Passwords == nil {
		return nil, errors.New("create user service: Store and Passwords are required")
	}

	cfg.PublicURL = strings.TrimRight(cfg.PublicURL, "/")
	if cfg.Withdraw == nil {
		cfg.Withdraw = func(context.Context, *store.Tx, api.Caller, string, string, rbac.Role) error { return nil }
	}

	if cfg.Deleted == nil {
		cfg.Deleted = func(context.Context, *store.Tx, User) error { return nil }
	}

	s := &Service{cfg: cfg, store: cfg.Store, passwords: cfg.Passwords, onChange: func(string) {}}
	if cfg.Offline {
		return s, nil
	}

	if err := insertTenant(ctx, s.store.DB.Write(), api.DefaultTenant, s.store.Now()); err != nil {
		return nil, fmt.Errorf("create user service: %w", err)
	}

	if !cfg.External {
		if err := s.prepareSetup(ctx); err != nil {
			return nil, fmt.Errorf("create user service: %w", err)
		}
	}

	return s, nil
}

// PublicURL returns the public address of the hub, without a path.
func (s *Service) PublicURL() string { return s.cfg.PublicURL }

// OnChange sets what is called after each change of the access of a user. Call it before requests
// are served.
func (s *Service) OnChange(changed func(userID string)) { s.onChange = changed }

// Changed reports a change of the access of a user, after the commit and before the response is
// written. It may have failed: the outcome of a commit may be unknown.
func (s *Service) Changed(userID string) { s.onChange(userID) }

// Values of Status and AuthSource.
const (
	Active         = "active"
	disabled       = "disabled"
	sourceBuiltin  = "builtin"
	sourceExternal = "external"
)

// ErrNone is returned by lookups without a result.
var ErrNone = errors.New("no such user")

// errNoPasswords rejects what would create a password in external mode.
var errNoPasswords = wire.Conflict.New("Users of this hub sign in with their identity provider: create users and reset passwords there.")

// ErrOtherMode rejects users of the other mode of sign-in.
var ErrOtherMode = wire.TokenRevoked.New("The hub signs users in in another way since the session began: sign in again.")

// User is a user as stored, and in JSON as administrators see it. A zero time was never set.
type User struct {
	wire.User

	TenantID          string    `json:"-"`
	PasswordHash      string    `json:"-"`
	PasswordChangedAt wire.Time `json:"-"`
	MustChange        bool      `json:"-"` // the user must change the password, because an administrator set or reset it
	UpdatedAt         wire.Time `json:"-"`
	DeviceEpoch       int64     `json:"-"` // of the device tokens that are valid
}

// Active reports whether the user is not disabled.
func (u User) Active() bool { return u.Status == Active }

func (u User) administers() bool { return u.Active() && u.Role == rbac.Admin }

// resetWindow is how long a password that was reset permits to sign in.
const resetWindow = 24 * time.Hour

// ResetExpired reports whether the password was reset too long ago, or in the future of a clock
// that was incorrect. The password that an administrator gave a new user does not expire.
func (u User) ResetExpired(now time.Time) bool {
	changed := u.PasswordChangedAt.Time
	age := now.Sub(changed)
	return u.MustChange && changed.After(u.CreatedAt.Time) && (age > resetWindow || age < -password.Window)
}

// Caller returns the user as a caller without a credential.
func (u User) Caller() api.Caller {
	return api.Caller{
		UserID: u.ID, UserName: u.Username, DisplayName: u.DisplayName, Email: u.Email,
		TenantID: u.TenantID, OrgID: u.TenantID, RoleNow: u.Role, Groups: u.Groups, MustChangePassword: u.MustChange,
	}
}

// Self returns the user who sent a request, by id and name.
func Self(caller api.Caller) User {
	return User{User: wire.User{ID: caller.UserID, Username: caller.UserName}, TenantID: caller.TenantID}
}

// Target returns e with the user as its target.
func (u User) Target(e auditlog.Event) auditlog.Event {
	return e.WithTarget(targetUser, u.ID, u.Username)
}

// Event returns the event of a request whose target is the user who sent it, signed in or not.
func (u User) Event(from api.Caller) auditlog.Event {
	e := u.Target(from.Event())
	e.TenantID, e.UserID, e.UserName = u.TenantID, u.ID, u.Username
	return e
}

// Signs reports whether the user signs in in the mode of the hub.
func (s *Service) Signs(u User) bool { return u.AuthSource == s.source() }

func (s *Service) source() string {
	if s.cfg.External {
		return sourceExternal
	}

	return sourceBuiltin
}

// Users returns the users of the tenant, the oldest first.
func (s *Service) Users(ctx context.Context, caller api.Caller, page api.Page) (api.List[User], error) {
	items, total, err := usersOf(ctx, s.store.Read(), caller.TenantID, page)
	return api.List[User]{Items: items, Total: total}, err
}

// User returns a user of the tenant.
func (s *Service) User(ctx context.Context, caller api.Caller, id string) (User, error) {
	return Of(ctx, s.store.Read(), caller, id)
}

// ParseID returns an id in the form in which ids are stored, or wire.NotFound.
func ParseID(text string) (string, error) {
	id, err := ids.Parse(text)
	if err != nil {
		return "", wire.NotFound
	}

	return id.String(), nil
}

// Of returns the user with the id in the caller's tenant.
func Of(ctx context.Context, q db.Querier, caller api.Caller, id string) (User, error) {
	id, err := ParseID(id)
	if err != nil {
		return User{}, err
	}

	u, err := ByID(ctx, q, caller.TenantID, id)
	if errors.Is(err, ErrNone) {
		return User{}, wire.NotFound.New("There is no such user.")
	}

	return u, err
}

// Routes returns the routes of users and invitations. Those that begin a session are of package
// session.
func (s *Service) Routes() []api.Route {
	users := func(method, path string, handle api.Handler) api.Route {
		return api.Route{Method: method, Path: "/api/v1/admin/users" + path, Group: rbac.AdminOnly, Category: "user", Handle: handle}
	}
	invites := func(method, path string, handle api.Handler) api.Route {
		return api.Route{Method: method, Path: "/api/v1/admin/invites" + path, Group: rbac.AdminOnly, Category: "invite", Handle: handle}
	}
	all := []api.Route{
		users(http.MethodGet, "", api.ListOf(s.Users)),
		users(http.MethodPost, "", api.Call(http.StatusCreated, s.CreateUser)),
		users(http.MethodGet, "/:id", api.CallBy(http.StatusOK, "id", s.User)),
		users(http.MethodPatch, "/:id", api.ResultOf(http.StatusOK, func(r *http.Request, in wire.ChangeUserRequest) (User, error) {
			return s.UpdateUser(r.Context(), api.CallerOf(r), r.PathValue("id"), in)
		})),
		users(http.MethodDelete, "/:id", api.DoneBy("id", s.DeleteUser)),
		users(http.MethodPost, "/:id/reset-password", api.Result(http.StatusOK, func(r *http.Request) (bodies.OneTimePassword, error) {
			given, err := s.ResetUserPassword(r.Context(), api.CallerOf(r), r.PathValue("id"))
			return bodies.OneTimePassword{Password: given}, err
		})),
		invites(http.MethodGet, "", api.ListOf(s.Invites)),
		invites(http.MethodPost, "", api.Call(http.StatusCreated, s.CreateInvite)),
		invites(http.MethodDelete, "/:id", api.DoneBy("id", s.RevokeInvite)),
	}
	if s.cfg.External {
		return all
	}

	return slices.Concat(all, []api.Route{
		{Method: http.MethodGet, Path: "/auth/mode", Access: api.Open, Handle: api.Result(http.StatusOK, func(r *http.Request) (wire.Mode, error) { return s.Mode(r.Context()) })},
		{Method: http.MethodGet, Path: "/auth/invite/:token", Access: api.Open, Secret: true, Handle: api.Result(http.StatusOK, func(r *http.Request) (wire.InviteCheck, error) {
			return s.CheckInvite(r.Context(), r.PathValue("token"))
		})},
	})
}
