package identity

import (
	"context"
	"database/sql"
	"net/http"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/rbac"
)

func (s *Service) listUserSessions(w http.ResponseWriter, r *http.Request) error {
	m, err := s.userOf(r)
	if err != nil {
		return err
	}
	list, err := s.sessionsOf(r, m.TenantID, m.ID, api.CallerOf(r).SessionID)
	if err != nil {
		return err
	}
	return api.Encode(w, http.StatusOK, list)
}

// endUserSessions ends all that live, the administrator's own too where they name themselves, with an entry for each.
func (s *Service) endUserSessions(w http.ResponseWriter, r *http.Request) error {
	var m member
	err := s.change(r, rbac.AdminOnly, func(ctx context.Context, tx *sql.Tx) (err error) {
		if m, err = userIn(ctx, tx, r); err != nil {
			return err
		}
		ended, err := s.endSessions(ctx, tx, m.ID, "", endedByRevoke)
		if err != nil || len(ended) == 0 {
			return err
		}
		var records []auditlog.Record
		for _, id := range ended {
			e := aboutSession(api.RequestEvent(r), id, m.Username)
			records = append(records, actionRevokeSession.Record(e, sessionDetail{id}))
		}
		return s.record(ctx, tx, records...)
	})
	s.invalidateUser(m.ID)
	if err != nil {
		return err
	}
	return api.NoContent(w)
}

func (s *Service) listUserTokens(w http.ResponseWriter, r *http.Request) error {
	m, err := s.userOf(r)
	if err != nil {
		return err
	}
	return s.answerTokens(w, r, m.ID)
}

func (s *Service) revokeUserToken(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r, "tokenId")
	if err != nil {
		return err
	}
	return s.answerRevoke(w, r, id, rbac.AdminOnly, func(ctx context.Context, tx *sql.Tx) (member, error) {
		return userIn(ctx, tx, r)
	})
}
