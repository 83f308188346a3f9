package identity

import (
	"context"
	"database/sql"
	"net/http"
	"time"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/rbac"
)

const (
	inviteTTL     = 7 * 24 * time.Hour
	maxInviteNote = 500 // characters
)

// What becomes of an invite. Only one that is pending lets somebody in.
const (
	invitePending = "pending"
	inviteUsed    = "used"
	inviteRevoked = "revoked"
	inviteExpired = "expired"
)

func (s *Service) inviteRoutes() []api.Route {
	route := func(method, path string, handle func(http.ResponseWriter, *http.Request) error) api.Route {
		return api.Route{Method: method, Path: "/api/v1/admin/invites" + path, Group: rbac.AdminOnly, Category: "invite", Handle: handle}
	}
	return []api.Route{
		route(http.MethodGet, "", s.listInvites),
		route(http.MethodPost, "", s.createInvite),
		route(http.MethodDelete, "/:id", s.revokeInvite),
		{Method: http.MethodGet, Path: "/auth/invite/:token", Access: api.Open, Secret: true, Handle: s.checkInvite},
		{Method: http.MethodPost, Path: "/auth/register", Access: api.Open, Handle: s.withKeys(s.register)},
	}
}

// invite is a row of the table. Zero times were never set.
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
	UsedBy        string // the username, which outlives the user
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

// inviteView is an invite as administrators see it. Token and URL are in the answer that makes it, and nowhere else.
type inviteView struct {
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

func viewInvite(i invite, now time.Time) inviteView {
	return inviteView{
		ID: i.ID, Role: i.Role, Note: i.Note, ExpiresAt: api.Time(i.ExpiresAt), UsedAt: api.Time(i.UsedAt), UsedBy: i.UsedBy,
		CreatedBy: i.CreatedByName, CreatedAt: api.Time(i.CreatedAt), Status: i.status(now),
	}
}

func (s *Service) listInvites(w http.ResponseWriter, r *http.Request) error {
	page, err := api.Paging(r)
	if err != nil {
		return err
	}
	invites, total, err := invitesOf(r.Context(), s.db.Read(), api.CallerOf(r).TenantID, page)
	if err != nil {
		return err
	}
	list := api.List[inviteView]{Total: total}
	for _, i := range invites {
		list.Items = append(list.Items, viewInvite(i, s.now()))
	}
	return api.Encode(w, http.StatusOK, list)
}

// newInvite is the body of POST /api/v1/admin/invites.
type newInvite struct {
	Role string `json:"role"`
	Note string `json:"note"`
}

func (s *Service) createInvite(w http.ResponseWriter, r *http.Request) error {
	in, err := api.Decode[newInvite](w, r)
	if err != nil {
		return err
	}
	faults := api.Fields{}
	role := checkRole(faults, in.Role)
	note := faults.Text("note", in.Note, 0, maxInviteNote)
	if err := faults.Err(); err != nil {
		return err
	}
	caller, now := api.CallerOf(r), s.now()
	token, hash := newToken("inv_")
	i := invite{
		ID: ids.New(), TenantID: caller.TenantID, Role: role, Note: note, CreatedBy: caller.UserID, CreatedByName: caller.UserName,
		CreatedAt: now, ExpiresAt: now.Add(inviteTTL),
	}
	err = s.change(r, rbac.AdminOnly, func(ctx context.Context, tx *sql.Tx) error {
		if err := insertInvite(ctx, tx, i, hash); err != nil {
			return err
		}
		return s.record(ctx, tx, actionCreateInvite.Record(inviteEvent(r, i), detailOf(i)))
	})
	if err != nil {
		return err
	}
	view := viewInvite(i, now)
	view.Token, view.URL = token, s.inviteURL(token)
	return api.Encode(w, http.StatusCreated, view)
}

// inviteURL is the page on which somebody registers. The token stands in the fragment, which browsers send to nobody.
func (s *Service) inviteURL(token string) string {
	return s.cfg.PublicURL + "/console/register#token=" + token
}

// revokeInvite leaves one alone that is revoked already. For one that was used it is too late, and the admin is told.
func (s *Service) revokeInvite(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r, "id")
	if err != nil {
		return err
	}
	err = s.change(r, rbac.AdminOnly, func(ctx context.Context, tx *sql.Tx) error {
		i, ended, err := s.endInvite(ctx, tx, api.CallerOf(r).TenantID, id)
		switch {
		case err != nil:
			return err
		case !i.UsedAt.IsZero():
			return api.Conflict.New("The invitation was used already, by " + i.UsedBy + ": disable or delete that user instead.")
		case !ended:
			return nil
		}
		return s.record(ctx, tx, revokedInvite(r, i))
	})
	if err != nil {
		return err
	}
	return api.NoContent(w)
}

func inviteEvent(r *http.Request, i invite) auditlog.Event {
	e := api.RequestEvent(r)
	e.TargetType, e.TargetID, e.TargetName = targetInvite, i.ID, i.Note
	return e
}

func detailOf(i invite) inviteDetail {
	return inviteDetail{string(i.Role), i.Note, api.Time(i.ExpiresAt).String()}
}

func revokedInvite(r *http.Request, i invite) auditlog.Record {
	return actionRevokeInvite.Record(inviteEvent(r, i), detailOf(i))
}
