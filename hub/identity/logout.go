package identity

import (
	"database/sql"
	"errors"
	"net/http"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/rbac"
)

// logout ends the session of the bearer, else that of the refresh token. A CLI token that is the bearer is revoked.
func (s *Service) logout(w http.ResponseWriter, r *http.Request) error {
	in, err := api.DecodeOptional[refreshRequest](w, r)
	if err != nil {
		return err
	}
	caller, err := s.Authenticate(r)
	switch {
	case err == nil:
		r = r.WithContext(rbac.NewContext(r.Context(), caller))
		if caller.Kind == api.CLI {
			err = s.logoutToken(r, caller)
		} else {
			err = s.logoutSession(r, member{ID: caller.UserID, TenantID: caller.TenantID, Username: caller.UserName}, caller.SessionID)
		}
	case in.RefreshToken != "":
		// That the access token beside it has expired is no hindrance.
		var f family
		if f, err = readFamily(r.Context(), s.db.Read(), hashToken(in.RefreshToken)); err == nil {
			err = s.logoutSession(r, f.member, f.session)
		}
	}
	if err != nil {
		return err
	}
	return api.NoContent(w)
}

func (s *Service) logoutSession(r *http.Request, m member, session string) error {
	ctx := r.Context()
	err := s.db.Tx(ctx, func(tx *sql.Tx) error {
		ended, err := s.endSession(ctx, tx, m.ID, session, endedByLogout)
		if err != nil {
			return err
		}
		if !ended {
			return api.TokenRevoked
		}
		e := aboutSession(selfEvent(r, m), session, m.Username)
		return s.record(ctx, tx, actionLogout.Record(e, sessionDetail{session}))
	})
	s.invalidateUser(m.ID)
	return err
}

func (s *Service) logoutToken(r *http.Request, caller api.Caller) error {
	ctx := r.Context()
	err := s.db.Tx(ctx, func(tx *sql.Tx) error {
		t, err := s.endToken(ctx, tx, caller.UserID, caller.TokenID)
		if errors.Is(err, api.NotFound) {
			return api.TokenRevoked
		}
		if err != nil {
			return err
		}
		return s.record(ctx, tx, revokedToken(r, t, caller.UserName))
	})
	s.invalidateUser(caller.UserID)
	return err
}
