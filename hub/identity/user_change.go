package identity

import (
	"context"
	"database/sql"

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
	err := s.change(ctx, caller, rbac.AdminOnly, func(tx *sql.Tx) error {
		before, err := userOf(ctx, tx, caller, id)
		if err != nil {
			return err
		}
		after = in.of(before)
		if after == before {
			return nil
		}
		after.UpdatedAt = s.now()
		return s.replaceUser(ctx, tx, caller, before, after)
	})
	s.invalidateUser(after.ID) // also after an error: the outcome of a commit may be unknown
	return viewUser(after), err
}

// replaceUser stores a changed member, ends sessions and revokes invites as the change requires,
// and appends an entry for each kind of change.
func (s *Service) replaceUser(ctx context.Context, tx *sql.Tx, caller api.Caller, before, after member) error {
	var records, revoked []auditlog.Record
	event := before.event(caller.Event())
	if after.Role != before.Role {
		records = append(records, actionUpdateRole.Record(event, updateRoleDetail{
			auditlog.Change[string]{From: string(before.Role), To: string(after.Role)},
		}))
	}
	if administers(before) && !administers(after) {
		var err error
		if revoked, err = s.demoteAdmin(ctx, tx, caller, before); err != nil {
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
		records = append(records, actionUpdateStatus.Record(event, detail))
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
		records = append(records, actionUpdateProfile.Record(event, updateProfileDetail{
			auditlog.Change[string]{From: before.DisplayName, To: after.DisplayName},
		}))
	}
	return s.record(ctx, tx, append(records, revoked...)...)
}

// DeleteUser deletes a user. It fails with api.LastAdmin if no active admin would remain.
func (s *Service) DeleteUser(ctx context.Context, caller api.Caller, id string) error {
	var gone member
	err := s.change(ctx, caller, rbac.AdminOnly, func(tx *sql.Tx) (err error) {
		if gone, err = userOf(ctx, tx, caller, id); err != nil {
			return err
		}
		var revoked []auditlog.Record
		if administers(gone) {
			if revoked, err = s.demoteAdmin(ctx, tx, caller, gone); err != nil {
				return err
			}
		}
		if err := deleteMember(ctx, tx, gone); err != nil {
			return err
		}
		if err := s.cfg.Withdraw(ctx, tx, caller, gone.TenantID, gone.ID, ""); err != nil {
			return err
		}
		deleted := actionDeleteUser.Record(gone.event(caller.Event()), deleteUserDetail{string(gone.Role)})
		return s.record(ctx, tx, append([]auditlog.Record{deleted}, revoked...)...)
	})
	s.invalidateUser(gone.ID)
	return err
}

func administers(m member) bool { return m.active() && m.Role == rbac.Admin }

// demoteAdmin revokes the open invitations of an active admin, one of which could restore the role.
// It returns their audit entries, and api.LastAdmin if no other active admin remains.
func (s *Service) demoteAdmin(ctx context.Context, tx *sql.Tx, caller api.Caller, m member) ([]auditlog.Record, error) {
	n, err := s.activeAdmins(ctx, tx, m.TenantID)
	if err != nil {
		return nil, err
	}
	if n < 2 {
		return nil, api.LastAdmin
	}
	invites, err := revokeInvitesOf(ctx, tx, m, s.now())
	if err != nil {
		return nil, err
	}
	var records []auditlog.Record
	for _, i := range invites {
		records = append(records, i.revoked(caller.Event()))
	}
	return records, nil
}
