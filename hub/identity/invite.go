package identity

import (
	"context"
	"time"

	"github.com/seed93082962/agenthost/hub/store"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/rbac"
)

const (
	inviteTTL     = 7 * 24 * time.Hour
	maxInviteNote = 500  // characters
	maxInvites    = 1000 // open ones of a tenant
)

// States of an invite. Only a pending one can be used.
const (
	invitePending = "pending"
	inviteUsed    = "used"
	inviteRevoked = "revoked"
	inviteExpired = "expired"
)

// invite is a row of the table. A zero time is NULL.
type invite struct {
	ID            string
	TenantID      string
	Role          rbac.Role
	Note          string
	CreatedBy     string
	CreatedByName string
	CreatedAt     time.Time
	ExpiresAt     time.Time
	UsedAt        time.Time
	UsedBy        string // the username, which is kept after the user is deleted
	RevokedAt     time.Time
}

func (i invite) status(now time.Time) string {
	switch {
	case !i.UsedAt.IsZero():
		return inviteUsed
	case !i.RevokedAt.IsZero():
		return inviteRevoked
	case !now.Before(i.ExpiresAt):
		return inviteExpired
	}
	return invitePending
}

// Invite is an invitation as administrators see it. Only the result of CreateInvite has Token and
// URL.
type Invite struct {
	ID        string    `json:"id"`
	Role      rbac.Role `json:"role"`
	Note      string    `json:"note,omitempty"`
	ExpiresAt api.Time  `json:"expiresAt"`
	UsedAt    api.Time  `json:"usedAt,omitzero"`
	UsedBy    string    `json:"usedBy,omitempty"`
	CreatedBy string    `json:"createdBy"`
	CreatedAt api.Time  `json:"createdAt"`
	Status    string    `json:"status"`
	Token     string    `json:"token,omitempty"`
	URL       string    `json:"url,omitempty"`
}

func (i invite) view(now time.Time) Invite {
	return Invite{
		ID: i.ID, Role: i.Role, Note: i.Note, ExpiresAt: api.Time(i.ExpiresAt), UsedAt: api.Time(i.UsedAt), UsedBy: i.UsedBy,
		CreatedBy: i.CreatedByName, CreatedAt: api.Time(i.CreatedAt), Status: i.status(now),
	}
}

// Invites returns the invitations of the tenant, the newest first.
func (s *Service) Invites(ctx context.Context, caller api.Caller, page api.Page) (api.List[Invite], error) {
	invites, total, err := invitesOf(ctx, s.store.Read(), caller.TenantID, page)
	list := api.List[Invite]{Total: total}
	for _, i := range invites {
		list.Items = append(list.Items, i.view(s.store.Now()))
	}
	return list, err
}

// InviteInput is the role of the future user, and a note for administrators.
type InviteInput struct {
	Role string `json:"role"`
	Note string `json:"note"`
}

// validate returns the input with surrounding white space removed, or the faults by field.
func (in InviteInput) validate() (InviteInput, error) {
	fields := api.Fields{}
	checkRole(fields, in.Role)
	in.Note = fields.Text("note", in.Note, 0, maxInviteNote)
	return in, fields.Err()
}

// CreateInvite creates an invitation. It fails with api.Conflict if the tenant has too many open
// ones, and in external mode.
func (s *Service) CreateInvite(ctx context.Context, caller api.Caller, in InviteInput) (Invite, error) {
	if s.cfg.External {
		return Invite{}, errNoPasswords
	}
	in, err := in.validate()
	if err != nil {
		return Invite{}, err
	}
	now := s.store.Now()
	token, hash := newToken("inv_")
	i := invite{
		ID: ids.New(), TenantID: caller.TenantID, Role: rbac.Role(in.Role), Note: in.Note,
		CreatedBy: caller.UserID, CreatedByName: caller.UserName, CreatedAt: now, ExpiresAt: now.Add(inviteTTL),
	}
	err = s.change(ctx, caller, rbac.AdminOnly, func(tx *store.Tx) error {
		if err := checkOpenInvites(ctx, tx, i.TenantID, now); err != nil {
			return err
		}
		if err := insertInvite(ctx, tx, i, hash); err != nil {
			return err
		}
		tx.Record(actionCreateInvite.Record(i.event(caller.Event()), i.detail()))
		return nil
	})
	view := i.view(now)
	view.Token, view.URL = token, s.inviteURL(token)
	return view, err
}

// inviteURL returns the address of the registration page. Browsers do not send the fragment, which
// has the token.
func (s *Service) inviteURL(token string) string {
	return s.cfg.PublicURL + "/console/register#token=" + token
}

// RevokeInvite revokes an invitation, without effect if it is revoked already. It fails with
// api.Conflict if the invitation was used.
func (s *Service) RevokeInvite(ctx context.Context, caller api.Caller, id string) error {
	id, err := parseID(id)
	if err != nil {
		return err
	}
	return s.change(ctx, caller, rbac.AdminOnly, func(tx *store.Tx) error {
		i, ended, err := revokeInvite(ctx, tx, caller.TenantID, id, s.store.Now())
		switch {
		case err != nil:
			return err
		case !i.UsedAt.IsZero():
			return api.Conflict.New("The invitation was used already, by " + i.UsedBy + ": disable or delete that user instead.")
		case !ended:
			return nil
		}
		tx.Record(i.revoked(caller.Event()))
		return nil
	})
}

// event returns e with the invitation as its target.
func (i invite) event(e auditlog.Event) auditlog.Event {
	e.TargetType, e.TargetID, e.TargetName = targetInvite, i.ID, i.Note
	return e
}

func (i invite) detail() inviteDetail {
	return inviteDetail{string(i.Role), i.Note, api.Time(i.ExpiresAt).String()}
}

// revoked returns the entry of the revocation.
func (i invite) revoked(e auditlog.Event) auditlog.Record {
	return actionRevokeInvite.Record(i.event(e), i.detail())
}
