package user

import (
	"context"
	"crypto/rand"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/internal/password"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/rbac"
)

// CreateUser creates a user, who must change the password after the first login. It fails with
// wire.NameTaken if the username is in use, in any letter case.
func (s *Service) CreateUser(ctx context.Context, caller api.Caller, in wire.CreateUserRequest) (User, error) {
	if s.cfg.External {
		return User{}, errNoPasswords
	}

	fields := api.Fields{}
	checkRole(fields, in.Role)
	u := checkAccount(fields, in.Username, in.Password, "displayName", in.DisplayName)
	if err := fields.Err(); err != nil {
		return User{}, err
	}

	hash, err := s.passwords.Hash(ctx, password.Known("user "+caller.UserID, caller), in.Password)
	if err != nil {
		return User{}, err
	}

	err = s.Change(ctx, caller, rbac.AdminOnly, func(tx *store.Tx) error {
		u = newUser(tx, u, caller.TenantID, in.Role, hash)
		u.MustChange = true
		tx.Record(actionCreateUser.Record(u.Target(caller.Event()), createUserDetail{Role: string(u.Role), DisplayName: u.DisplayName}))
		return insertNamed(ctx, tx, u)
	})
	return u, err
}

// newUser completes the user that checkAccount returned.
func newUser(tx *store.Tx, u User, tenantID string, role rbac.Role, hash string) User {
	u.ID = ids.New()
	u.TenantID = tenantID
	u.Role = role
	u.Status = Active
	u.AuthSource = sourceBuiltin
	u.PasswordHash = hash
	u.CreatedAt = wire.Time{Time: tx.Now}
	u.PasswordChangedAt = u.CreatedAt
	u.UpdatedAt = u.CreatedAt
	return u
}

// insertNamed stores a new user under a name that is free.
func insertNamed(ctx context.Context, tx *store.Tx, u User) error {
	err := insert(ctx, tx, u)
	if db.UniqueViolation(err) {
		return &wire.Error{Code: wire.NameTaken, Message: "The username is taken, in this or another letter case: choose another.", Cause: err}
	}

	return err
}

// checkChange returns the faults by field. It also removes white space around the display name.
func checkChange(in wire.ChangeUserRequest) error {
	faults := api.Fields{}
	if in.Role != nil {
		checkRole(faults, *in.Role)
	}

	if in.Status != nil && *in.Status != Active && *in.Status != disabled {
		faults.Add("status", "must be active or disabled")
	}

	if in.DisplayName != nil {
		*in.DisplayName = checkDisplayName(faults, "displayName", *in.DisplayName)
	}

	return faults.Err()
}

// changed returns the user with the changes applied.
func (u User) changed(in wire.ChangeUserRequest) User {
	if in.Role != nil {
		u.Role = *in.Role
	}

	if in.Status != nil {
		u.Status = *in.Status
	}

	if in.DisplayName != nil {
		u.DisplayName = *in.DisplayName
	}

	return u
}

// UpdateUser changes a user. It fails with code.LastAdmin if no active admin would remain.
func (s *Service) UpdateUser(ctx context.Context, caller api.Caller, id string, in wire.ChangeUserRequest) (User, error) {
	if err := checkChange(in); err != nil {
		return User{}, err
	}

	var after User
	err := s.Change(ctx, caller, rbac.AdminOnly, func(tx *store.Tx) error {
		before, err := Of(ctx, tx, caller, id)
		if err != nil {
			return err
		}

		after = before.changed(in)
		if after.Role == before.Role && after.Status == before.Status && after.DisplayName == before.DisplayName {
			return nil
		}

		after.UpdatedAt = wire.Time{Time: tx.Now}
		return s.replace(ctx, tx, before, after)
	})
	s.Changed(after.ID)
	return after, err
}

// replace stores a changed user, ends sessions and revokes invites as the change requires, and
// records an entry for each kind of change.
func (s *Service) replace(ctx context.Context, tx *store.Tx, before, after User) error {
	demoted := before.administers() && !after.administers()
	if demoted {
		if err := s.checkOtherAdmins(ctx, tx, before); err != nil {
			return err
		}
	}

	if err := update(ctx, tx, after); err != nil {
		return err
	}

	ended := 0
	if after.Status != before.Status && !after.Active() {
		live, err := EndSessions(ctx, tx, after, "", EndedByDisable)
		if err != nil {
			return err
		}

		ended = len(live)
	}

	recordChange(tx, before.Target(tx.Caller.Event()), before, after, ended)
	if after.Role != before.Role || after.Status != before.Status {
		role := after.Role
		if !after.Active() {
			role = ""
		}

		if err := s.cfg.Withdraw(ctx, tx, tx.Caller, after.TenantID, after.ID, role); err != nil {
			return err
		}
	}

	if demoted {
		return revokeInvites(ctx, tx, before)
	}

	return nil
}

// recordChange records an entry for each kind of change of a user.
func recordChange(tx *store.Tx, e auditlog.Event, before, after User, ended int) {
	if role := auditlog.Diff(string(before.Role), string(after.Role)); role != nil {
		tx.Record(actionUpdateRole.Record(e, updateRoleDetail{Role: *role}))
	}

	if status := auditlog.Diff(before.Status, after.Status); status != nil {
		tx.Record(actionUpdateStatus.Record(e, updateStatusDetail{Status: *status, SessionsEnded: ended}))
	}

	if name := auditlog.Diff(before.DisplayName, after.DisplayName); name != nil {
		tx.Record(actionUpdateProfile.Record(e, updateProfileDetail{DisplayName: *name}))
	}
}

// DeleteUser deletes a user. It fails with code.LastAdmin if no active admin would remain.
func (s *Service) DeleteUser(ctx context.Context, caller api.Caller, id string) error {
	var gone User
	err := s.Change(ctx, caller, rbac.AdminOnly, func(tx *store.Tx) (err error) {
		if gone, err = Of(ctx, tx, caller, id); err != nil {
			return err
		}

		tx.Record(actionDeleteUser.Record(gone.Target(caller.Event()), deleteUserDetail{Role: string(gone.Role)}))
		if gone.administers() {
			if err := s.checkOtherAdmins(ctx, tx, gone); err != nil {
				return err
			}

			if err := revokeInvites(ctx, tx, gone); err != nil {
				return err
			}
		}

		if err := remove(ctx, tx, gone); err != nil {
			return err
		}

		if err := s.cfg.Withdraw(ctx, tx, caller, gone.TenantID, gone.ID, ""); err != nil {
			return err
		}

		return s.cfg.Deleted(ctx, tx, gone)
	})
	s.Changed(gone.ID)
	return err
}

// checkOtherAdmins returns code.LastAdmin if the tenant has no other active admin than u.
func (s *Service) checkOtherAdmins(ctx context.Context, tx *store.Tx, u User) error {
	n, err := s.otherAdmins(ctx, tx, u)
	if err == nil && n < 1 {
		return code.LastAdmin
	}

	return err
}

// revokeInvites revokes the open invitations of a former admin, one of which could restore the
// role.
func revokeInvites(ctx context.Context, tx *store.Tx, u User) error {
	invites, err := revokeInvitesOf(ctx, tx, u)
	for _, i := range invites {
		tx.Record(i.revoked(tx.Caller.Event()))
	}

	return err
}

// ResetUserPassword returns a new password of a user, which the user must change. It ends the
// sessions of the user and revokes the CLI tokens and the open invitations that the user created.
func (s *Service) ResetUserPassword(ctx context.Context, caller api.Caller, id string) (string, error) {
	if s.cfg.External {
		return "", errNoPasswords
	}

	named, err := Of(ctx, s.store.Read(), caller, id) // before a password is hashed
	if err != nil {
		return "", err
	}

	// The holder of a stolen CLI token must not get the password of its owner.
	if caller.Kind == api.CLI && caller.UserID == named.ID {
		return "", wire.Forbidden.New("A CLI token cannot reset the password of its own user: sign in with it, or ask another administrator.")
	}

	given := rand.Text() // 26 letters and digits, at least 128 bits
	hash, err := s.passwords.Hash(ctx, password.Known("user "+caller.UserID, caller), given)
	if err != nil {
		return "", err
	}

	err = s.Change(ctx, caller, rbac.AdminOnly, func(tx *store.Tx) error {
		u, err := Of(ctx, tx, caller, id)
		if err != nil {
			return err
		}

		return resetPassword(ctx, tx, u, hash, caller.Event(), resetPasswordDetail{})
	})
	s.Changed(named.ID)
	return given, err
}

// resetPassword stores a password that the user must change. It ends the sessions of the user and
// revokes the CLI tokens and the open invites that the user created: an intruder may have created
// one of them.
func resetPassword(ctx context.Context, tx *store.Tx, u User, hash string, e auditlog.Event, detail resetPasswordDetail) error {
	if u.AuthSource != sourceBuiltin {
		return errNoPasswords
	}

	if err := setPassword(ctx, tx, u, hash); err != nil {
		return err
	}

	ended, err := EndSessions(ctx, tx, u, "", EndedByPassword)
	if err != nil {
		return err
	}

	detail.SessionsEnded = len(ended)
	if detail.TokensRevoked, err = RevokeTokens(ctx, tx, u); err != nil {
		return err
	}

	invites, err := revokeInvitesOf(ctx, tx, u)
	if err != nil {
		return err
	}

	detail.InvitesRevoked = len(invites)
	tx.Record(actionResetPassword.Record(u.Target(e), detail))
	for _, i := range invites {
		tx.Record(i.revoked(e))
	}

	return password.Forget(ctx, tx, u.Username)
}
