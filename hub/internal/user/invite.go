package user

import (
	"context"
	"time"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/bodies"
	"github.com/seed93082962/agenthost/hub/internal/password"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/internal/token"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/rbac"
)

const (
	inviteTTL     = 7 * 24 * time.Hour
	maxInviteNote = 500  // characters
	maxInvites    = 1000 // open ones of a tenant
)

// Invite is an invitation as stored, and in JSON as administrators see it.
type Invite struct {
	wire.Invite

	TenantID    string    `json:"-"`
	CreatedByID string    `json:"-"`
	RevokedAt   wire.Time `json:"-"`
}

func (i Invite) status(now time.Time) string {
	switch {
	case !i.UsedAt.IsZero():
		return "used"
	case !i.RevokedAt.IsZero():
		return "revoked"
	case !now.Before(i.ExpiresAt.Time):
		return "expired"
	}

	return "pending"
}

// Invites returns the invitations of the tenant, the newest first.
func (s *Service) Invites(ctx context.Context, caller api.Caller, page api.Page) (api.List[Invite], error) {
	items, total, err := invitesOf(ctx, s.store.Read(), caller.TenantID, page)
	for i, invite := range items {
		items[i].Status = invite.status(s.store.Now())
	}

	return api.List[Invite]{Items: items, Total: total}, err
}

// CreateInvite creates an invitation. It fails with wire.Conflict if the tenant has too many open
// ones, and in external mode.
func (s *Service) CreateInvite(ctx context.Context, caller api.Caller, in bodies.CreateInviteRequest) (wire.NewInvite, error) {
	if s.cfg.External {
		return wire.NewInvite{}, errNoPasswords
	}

	fields := api.Fields{}
	checkRole(fields, in.Role)
	in.Note = fields.Text("note", in.Note, 0, maxInviteNote)
	if err := fields.Err(); err != nil {
		return wire.NewInvite{}, err
	}

	raw, hash := token.Random("inv_")
	var out wire.NewInvite
	err := s.Change(ctx, caller, rbac.AdminOnly, func(tx *store.Tx) error {
		if err := checkOpenInvites(ctx, tx, caller.TenantID); err != nil {
			return err
		}

		i := Invite{TenantID: caller.TenantID, CreatedByID: caller.UserID, Invite: wire.Invite{
			ID: ids.New(), Role: in.Role, Note: in.Note, CreatedBy: caller.UserName,
			CreatedAt: wire.Time{Time: tx.Now}, ExpiresAt: wire.Time{Time: tx.Now.Add(inviteTTL)},
		}}
		out = wire.NewInvite{
			ID: i.ID, Role: i.Role, Note: i.Note, ExpiresAt: i.ExpiresAt, CreatedBy: i.CreatedBy, CreatedAt: i.CreatedAt, Status: "pending",
			Token: raw, URL: s.cfg.PublicURL + "/console/register#token=" + raw, // browsers do not send the fragment
		}
		tx.Record(actionCreateInvite.Record(i.target(caller.Event()), i.detail()))
		return insertInvite(ctx, tx, i, hash)
	})
	return out, err
}

// RevokeInvite revokes an invitation, without effect if it is revoked already. It fails with
// wire.Conflict if the invitation was used.
func (s *Service) RevokeInvite(ctx context.Context, caller api.Caller, id string) error {
	id, err := ParseID(id)
	if err != nil {
		return err
	}

	return s.Change(ctx, caller, rbac.AdminOnly, func(tx *store.Tx) error {
		i, ended, err := revokeInvite(ctx, tx, caller.TenantID, id)
		switch {
		case err != nil:
			return err
		case !i.UsedAt.IsZero():
			return wire.Conflict.New("The invitation was used already, by " + i.UsedBy + ": disable or delete that user instead.")
		case !ended:
			return tx.Unchanged()
		}

		tx.Record(i.revoked(caller.Event()))
		return nil
	})
}

// target returns e with the invitation as its target.
func (i Invite) target(e auditlog.Event) auditlog.Event {
	return e.WithTarget(targetInvite, i.ID, i.Note)
}

func (i Invite) detail() inviteDetail {
	return inviteDetail{Role: string(i.Role), Note: i.Note, ExpiresAt: i.ExpiresAt.String()}
}

// revoked returns the entry of the revocation.
func (i Invite) revoked(e auditlog.Event) auditlog.Record {
	return actionRevokeInvite.Record(i.target(e), i.detail())
}

// CheckInvite returns the invitation of a token, or code.InviteInvalid.
func (s *Service) CheckInvite(ctx context.Context, raw string) (wire.InviteCheck, error) {
	i, err := pendingInvite(ctx, s.store.Read(), raw, s.store.Now())
	return wire.InviteCheck{Valid: true, Role: i.Role, ExpiresAt: i.ExpiresAt}, err
}

// SignIn begins a session of a new user in the transaction that creates the user.
type SignIn func(ctx context.Context, tx *store.Tx, u User) error

// Register creates the user of an invitation.
func (s *Service) Register(ctx context.Context, from api.Caller, in wire.RegisterRequest, signIn SignIn) error {
	fields := api.Fields{}
	if in.Token == "" {
		fields.Add("token", "must be the token of an invitation")
	}

	u := checkAccount(fields, in.Username, in.Password, "display_name", in.DisplayName)
	if err := fields.Err(); err != nil {
		return err
	}

	// Without a valid invitation, no password is hashed and the names in use are not revealed.
	i, err := pendingInvite(ctx, s.store.Read(), in.Token, s.store.Now())
	if err != nil {
		return err
	}

	hash, err := s.passwords.Hash(ctx, password.Known("invite "+i.ID, from), in.Password)
	if err != nil {
		return err
	}

	return s.store.Change(ctx, store.Change{}, func(tx *store.Tx) error {
		i, err := useInvite(ctx, tx, in.Token, u.Username)
		if err != nil {
			return err
		}

		u = newUser(tx, u, i.TenantID, i.Role, hash)
		u.LastLoginAt = u.CreatedAt
		if err := insertNamed(ctx, tx, u); err != nil {
			return err
		}

		tx.Record(actionRegister.Record(u.Event(from), registerDetail{InviteID: i.ID, Role: string(u.Role)}))
		return signIn(ctx, tx, u)
	})
}
