package identity

import (
	"database/sql"
	"net/http"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/db"
)

type sessionItem struct {
	ID         string   `json:"id"`
	CreatedAt  api.Time `json:"createdAt"`
	LastUsedAt api.Time `json:"lastUsedAt"`
	RemoteIP   string   `json:"remoteIp"`
	UserAgent  string   `json:"userAgent"`
	Current    bool     `json:"current"`
}

func (s *Service) listSessions(w http.ResponseWriter, r *http.Request) error {
	caller := api.CallerOf(r)
	list, err := s.sessionsOf(r, caller.TenantID, caller.UserID, caller.SessionID)
	if err != nil {
		return err
	}
	return api.Encode(w, http.StatusOK, list)
}

// sessionsOf is a page of a user's live sessions, those used last first.
func (s *Service) sessionsOf(r *http.Request, tenantID, userID, current string) (list api.List[sessionItem], err error) {
	page, err := api.Paging(r)
	if err != nil {
		return list, err
	}
	const live = ` FROM sessions WHERE tenant_id = $1 AND user_id = $2 AND revoked_at IS NULL AND idle_until > $3 AND expires_at > $3`
	ctx, now := r.Context(), db.Micros(s.now())
	err = s.db.Read().QueryRowContext(ctx, `SELECT COUNT(*)`+live, tenantID, userID, now).Scan(&list.Total)
	if err != nil {
		return list, fault("count sessions", err)
	}
	list.Items, err = collect(ctx, s.db.Read(), "list sessions", func(row scanner) (item sessionItem, err error) {
		var created, used int64
		err = row.Scan(&item.ID, &created, &used, &item.RemoteIP, &item.UserAgent)
		item.CreatedAt, item.LastUsedAt, item.Current = api.Time(db.Time(created)), api.Time(db.Time(used)), item.ID == current
		return item, err
	}, `SELECT id, created_at, last_used_at, remote_ip, user_agent`+live+` ORDER BY last_used_at DESC, id DESC LIMIT $4 OFFSET $5`,
		tenantID, userID, now, page.Size, page.Offset())
	return list, err
}

func (s *Service) deleteSession(w http.ResponseWriter, r *http.Request) error {
	ctx, caller := r.Context(), api.CallerOf(r)
	id, err := pathID(r, "id")
	if err != nil {
		return err
	}
	err = s.db.Tx(ctx, func(tx *sql.Tx) error {
		ended, err := s.endSession(ctx, tx, caller.UserID, id, endedByRevoke)
		if err != nil {
			return err
		}
		if !ended {
			return api.NotFound.New("You have no such session, or it has ended.")
		}
		e := api.RequestEvent(r)
		return s.record(ctx, tx, actionRevokeSession.Record(aboutSession(e, id, caller.UserName), sessionDetail{id}))
	})
	s.invalidateUser(caller.UserID)
	if err != nil {
		return err
	}
	return api.NoContent(w)
}
