package identity

import (
	"context"

	"github.com/seed93082962/agenthost/hub/store"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/rbac"
)

// UserUpdate has the fields of a user to change. A nil field stays as it is.
type UserUpdate struct {
	Role        *string `json:"role"`
	Status      *string `json:"status"`
	DisplayName *string `json:"displayName"`
}

// check returns the faults by field. It also removes white space around the display name.
func (c UserUpdate) check() error {
	faults := api.Fields{}
	if c.Role != nil {
		checkRole(faults, *c.Role)
	}
	if c.Status != nil && *c.Status != statusActive && *c.Status != statusDisabled {
		faults.Add("status", "must be active or disabled")
	}
	if c.DisplayName != nil {
		*c.DisplayName = checkDisplayName(faults, "displayName", *c.DisplayName)
	}
	return faults.Err()
}

// of returns the member with the changes applied.
func (c UserUpdate) of(m member) member {
	if c.Role != nil {
		m.Role = rbac.Role(*c.Role)
	}
	if c.Status != nil {
		m.Status = *c.Status
	}
	if c.DisplayName != nil {
		m.DisplayName = *c.DisplayName
	}
	return m
}

// UpdateUser changes a user. It fails with api.LastAdmin if no active admin would remain.
func (s *Service) UpdateUser(ctx context.Context, caller api.Caller, id string, in UserUpdate) (User, error) {
	if err := in.check(); err != nil {
		return User{}, err
	}
	var after member
	err := s.change(ctx, caller, rbac.AdminOnly, func(tx *store.Tx) error {
		before, err := userOf(ctx, tx, caller, id)
		if err != nil {
			return err
		}
		after = in.of(before)
		if after == before {
			return nil
		}
		after.UpdatedAt = s.store.Now()
		return s.replaceUser(ctx, tx, caller, before, after)
	})
	s.invalidateUser(after.ID) // also after an error: the outcome of a commit may be unknown
	return viewUser(after), err
}

// replaceUser stores a changed member, ends sessions and revokes invites as the change requires,
// and appends an entry for each kind of change.
func (s *Service) replaceUser(ctx context.Context, tx *store.Tx, caller api.Caller, before, after member) error {
	event := before.event(caller.Event())
	if after.Role != before.Role {
		tx.Record(actionUpdateRole.Record(event, updateRoleDetail{
			auditlog.Change[string]{From: string(before.Role), To: string(after.Role)},
		}))
	}
	if administers(before) && !administers(after) {
		if err := s.checkOtherAdmins(ctx, tx, before.TenantID); err != nil {
			return err
		}
	}
	if err := updateMember(ctx, tx, after); err != nil {
		return err
	}
	if after.Status != before.Status {
		detail := updateStatusDetail{Status: auditlog.Change[string]{From: before.Status, To: after.Status}}
		if !after.active() {
			ended, err := s.endSessions(ctx, tx, after, "", endedByDisable)
			if err != nil {
				return err
			}
			detail.SessionsEnded = len(ended)
		}
		tx.Record(actionUpdateStatus.Record(event, detail))
	}
	if after.Role != before.Role || after.Status != before.Status {
		role := after.Role
		if !after.active() {
			role = ""
		}
		if err := s.cfg.Withdraw(ctx, tx, caller, after.TenantID, after.ID, role); err != nil {
			return err
		}
	}
	if after.DisplayName != before.DisplayName {
		tx.Record(actionUpdateProfile.Record(event, updateProfileDetail{
			auditlog.Change[string]{From: before.DisplayName, To: after.DisplayName},
		}))
	}
	if administers(before) && !administers(after) {
		return revokeInvites(ctx, tx, before)
	}
	return nil
}

// DeleteUser deletes a user. It fails with api.LastAdmin if no active admin would remain.
func (s *Service) DeleteUser(ctx context.Context, caller api.Caller, id string) error {
	var gone member
	err := s.change(ctx, caller, rbac.AdminOnly, func(tx *store.Tx) (err error) {
		if gone, err = userOf(ctx, tx, caller, id); err != nil {
			return err
		}
		tx.Record(actionDeleteUser.Record(gone.event(caller.Event()), deleteUserDetail{string(gone.Role)}))
		if administers(gone) {
			if err := s.checkOtherAdmins(ctx, tx, gone.TenantID); err != nil {
				return err
			}
			if err := revokeInvites(ctx, tx, gone); err != nil {
				return err
			}
		}
		if err := deleteMember(ctx, tx, gone); err != nil {
			return err
		}
		return s.cfg.Withdraw(ctx, tx, caller, gone.TenantID, gone.ID, "")
	})
	s.invalidateUser(gone.ID)
	return err
}

func administers(m member) bool { return m.active() && m.Role == rbac.Admin }

// checkOtherAdmins returns api.LastAdmin if the tenant has only one active admin.
func (s *Service) checkOtherAdmins(ctx context.Context, tx *store.Tx, tenantID string) error {
	n, err := s.activeAdmins(ctx, tx, tenantID)
	if err == nil && n < 2 {
		return api.LastAdmin
	}
	return err
}

// revokeInvites revokes the open invitations of a former admin, one of which could restore the role.
func revokeInvites(ctx context.Context, tx *store.Tx, m member) error {
	invites, err := revokeInvitesOf(ctx, tx, m, tx.Now)
	for _, i := range invites {
		tx.Record(i.revoked(tx.Caller.Event()))
	}
	return err
}
