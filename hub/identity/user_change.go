package identity

import (
	"context"
	"database/sql"
	"net/http"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/rbac"
)

// userChange is the body of PATCH /api/v1/admin/users/:id. What is left out or null stays as it is.
type userChange struct {
	Role        *string `json:"role"`
	Status      *string `json:"status"`
	DisplayName *string `json:"displayName"`
}

// check also takes the white space around the display name away.
func (c userChange) check() error {
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

// of is the member as the change leaves them.
func (c userChange) of(m member) member {
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

func (s *Service) changeUser(w http.ResponseWriter, r *http.Request) error {
	if _, err := pathID(r, "id"); err != nil {
		return err
	}
	in, err := api.Decode[userChange](w, r)
	if err != nil {
		return err
	}
	if err := in.check(); err != nil {
		return err
	}
	var after member
	err = s.change(r, rbac.AdminOnly, func(ctx context.Context, tx *sql.Tx) error {
		before, err := userIn(ctx, tx, r)
		if err != nil {
			return err
		}
		after = in.of(before)
		if after == before {
			return nil
		}
		after.UpdatedAt = s.now()
		return s.replaceUser(ctx, tx, r, before, after)
	})
	s.invalidateUser(after.ID) // whatever came of it: a commit that was not answered may have been made
	if err != nil {
		return err
	}
	return api.Encode(w, http.StatusOK, viewUser(after))
}

// replaceUser stores a changed member, with what follows from the change, and one entry for each kind of change.
func (s *Service) replaceUser(ctx context.Context, tx *sql.Tx, r *http.Request, before, after member) error {
	var records, revoked []auditlog.Record
	event := userEvent(r, before)
	if after.Role != before.Role {
		records = append(records, actionUpdateRole.Record(event, updateRoleDetail{
			auditlog.Change[string]{From: string(before.Role), To: string(after.Role)},
		}))
	}
	if administers(before) && !administers(after) {
		var err error
		if revoked, err = s.loseAdmin(ctx, tx, r, before); err != nil {
			return err
		}
	}
	if err := updateMember(ctx, tx, after); err != nil {
		return err
	}
	if after.Status != before.Status {
		detail := updateStatusDetail{Status: auditlog.Change[string]{From: before.Status, To: after.Status}}
		if !after.active() {
			ended, err := s.endSessions(ctx, tx, after.ID, "", endedByDisable)
			if err != nil {
				return err
			}
			detail.SessionsEnded = len(ended)
		}
		records = append(records, actionUpdateStatus.Record(event, detail))
	}
	if after.DisplayName != before.DisplayName {
		records = append(records, actionUpdateProfile.Record(event, updateProfileDetail{
			auditlog.Change[string]{From: before.DisplayName, To: after.DisplayName},
		}))
	}
	return s.record(ctx, tx, append(records, revoked...)...)
}

func (s *Service) deleteUser(w http.ResponseWriter, r *http.Request) error {
	var gone member
	err := s.change(r, rbac.AdminOnly, func(ctx context.Context, tx *sql.Tx) (err error) {
		if gone, err = userIn(ctx, tx, r); err != nil {
			return err
		}
		var revoked []auditlog.Record
		if administers(gone) {
			if revoked, err = s.loseAdmin(ctx, tx, r, gone); err != nil {
				return err
			}
		}
		if err := deleteMember(ctx, tx, gone); err != nil {
			return err
		}
		deleted := actionDeleteUser.Record(userEvent(r, gone), deleteUserDetail{string(gone.Role)})
		return s.record(ctx, tx, append([]auditlog.Record{deleted}, revoked...)...)
	})
	s.invalidateUser(gone.ID)
	if err != nil {
		return err
	}
	return api.NoContent(w)
}

func administers(m member) bool { return m.active() && m.Role == rbac.Admin }

// loseAdmin takes from an active admin what goes with it, unless there is no other. The invitations they have given go too:
// one of them could be their way back. It answers the entries to be recorded.
func (s *Service) loseAdmin(ctx context.Context, tx *sql.Tx, r *http.Request, m member) ([]auditlog.Record, error) {
	n, err := activeAdmins(ctx, tx, m.TenantID)
	if err != nil {
		return nil, err
	}
	if n < 2 {
		return nil, api.LastAdmin
	}
	invites, err := s.endInvitesOf(ctx, tx, m)
	if err != nil {
		return nil, err
	}
	var records []auditlog.Record
	for _, i := range invites {
		records = append(records, revokedInvite(r, i))
	}
	return records, nil
}
