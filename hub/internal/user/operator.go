package user

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/password"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/rbac"
)

// ErrNoUser is returned by the commands of an operator if no user has the name.
var ErrNoUser = errors.New("no such user")

// ResetPassword sets and returns a new password of a user, ends all sessions and revokes the CLI
// tokens and invites. It is for the operator of the hub. It takes effect in running hubs within 2
// seconds. It fails in external mode, in which the user could not change the password.
func (s *Service) ResetPassword(ctx context.Context, username string) (string, error) {
	fault := func(err error) error {
		if errors.Is(err, ErrNone) {
			err = ErrNoUser
		}

		return fmt.Errorf("reset password of %q: %w", username, err)
	}
	if s.cfg.External {
		return "", fault(errNoPasswords)
	}

	named, err := ByName(ctx, s.store.Read(), api.DefaultTenant, username)
	if err != nil {
		return "", fault(err)
	}

	given := rand.Text() // 26 letters and digits, at least 128 bits
	hash, err := s.passwords.Hash(ctx, password.Party{}, given)
	if err != nil {
		return "", err
	}

	// No CLI token can be issued between the new password and the revocation of the tokens.
	err = s.operate(ctx, named.TenantID, func(tx *store.Tx) error {
		u, err := ByID(ctx, tx, named.TenantID, named.ID)
		if err != nil {
			return err
		}

		return resetPassword(ctx, tx, u, hash, auditlog.Event{TenantID: u.TenantID}, resetPasswordDetail{Offline: true})
	})
	s.Changed(named.ID)
	if err != nil {
		return "", fault(err)
	}

	return given, nil
}

// operate makes a change of an operator on the hub's machine, who has no account.
func (s *Service) operate(ctx context.Context, tenantID string, do func(tx *store.Tx) error) error {
	return s.store.Change(ctx, store.Change{Caller: api.Caller{TenantID: tenantID}, Lock: LockTenant}, do)
}

// FirstAdmin returns the oldest active admin of the default tenant, or nil.
func (s *Service) FirstAdmin(ctx context.Context) (*api.Caller, error) {
	u, err := firstAdmin(ctx, s.store.Read(), api.DefaultTenant)
	if errors.Is(err, ErrNone) {
		return nil, nil
	}

	if err != nil {
		return nil, err
	}

	return &api.Caller{UserID: u.ID, UserName: u.Username, DisplayName: u.DisplayName, TenantID: u.TenantID, RoleNow: u.Role}, nil
}

// AdminName names an admin for a command of the operator.
type AdminName struct {
	TenantID string
	Issuer   string // that of the organization; "" in built-in mode
	Username string // in any letter case, or "" with Subject
	Subject  string // at the identity provider
}

// ParseAdminName reads organization/username, organization/sub:subject, or only the last part for
// [api.DefaultTenant].
func ParseAdminName(text string) AdminName {
	var n AdminName
	n.TenantID = api.DefaultTenant
	if org, name, ok := strings.Cut(text, "/"); ok && !strings.HasPrefix(text, "sub:") {
		n.TenantID, text = org, name
	}

	if subject, ok := strings.CutPrefix(text, "sub:"); ok {
		n.Subject = subject
		return n
	}

	n.Username = text
	return n
}

// ErrNotAdmin means that a user is not an active admin.
var ErrNotAdmin = errors.New("the user is not an active admin")

// ForAdmin makes a change of an operator for an active admin.
func (s *Service) ForAdmin(ctx context.Context, what string, name AdminName, do func(tx *store.Tx, u User) error) error {
	return s.forNamed(ctx, what, name, func(tx *store.Tx, u User) error {
		if !u.administers() {
			return ErrNotAdmin
		}

		return do(tx, u)
	})
}

// RestoreAdmin makes a user an active admin, for the operator of the hub: after a change of the
// issuer, the new users of an organization are members. It takes effect in running hubs within 2
// seconds.
func (s *Service) RestoreAdmin(ctx context.Context, name AdminName) error {
	return s.forNamed(ctx, "restore admin", name, func(tx *store.Tx, before User) error {
		if before.administers() {
			return tx.Unchanged()
		}

		after := before
		after.Role = rbac.Admin
		after.Status = Active
		after.UpdatedAt = wire.Time{Time: tx.Now}
		recordChange(tx, before.Target(auditlog.Event{TenantID: before.TenantID}), before, after, 0)
		return update(ctx, tx, after)
	})
}

// forNamed calls do with the user who signs in in the mode of the hub.
func (s *Service) forNamed(ctx context.Context, what string, name AdminName, do func(tx *store.Tx, u User) error) error {
	err := s.operate(ctx, name.TenantID, func(tx *store.Tx) error {
		find := func() (User, error) { return ByName(ctx, tx, name.TenantID, name.Username) }
		if name.Subject != "" {
			find = func() (User, error) { return BySubject(ctx, tx, name.TenantID, name.Issuer, name.Subject) }
		}

		u, err := find()
		if err == nil && (!s.Signs(u) || s.cfg.External && u.Issuer != name.Issuer) {
			err = ErrNone // of another mode, or of a former issuer
		}

		if err != nil {
			return err
		}

		return do(tx, u)
	})
	if err == nil {
		return nil
	}

	if errors.Is(err, ErrNone) {
		err = fmt.Errorf("%w who signs in at this hub: users have to sign in once before", ErrNoUser)
	}

	user := name.Username
	if name.Subject != "" {
		user = "sub:" + name.Subject
	}

	return fmt.Errorf("%s %q of %s: %w", what, user, name.TenantID, err)
}
