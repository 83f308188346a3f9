package identity

import (
	"cmp"
	"context"
	"errors"

	"github.com/seed93082962/agenthost/hub/store"

	"github.com/seed93082962/agenthost/hub/api"
)

// Logout ends the session of the bearer token, or revokes a bearer token that is a CLI token. If
// the bearer token is missing or invalid, it ends the session of the refresh token. A rotated
// refresh token next to a valid bearer token is reuse too, unless it may be a retry: then only the
// bearer token counts.
func (s *Service) Logout(ctx context.Context, from api.Caller, bearer string, in RefreshInput) error {
	caller, err := s.AuthenticateToken(ctx, from, bearer)
	switch {
	case err == nil:
		reuse := s.checkReuse(ctx, from, in.RefreshToken) // before the session ends: an ended one hides the reuse
		err := s.logoutCaller(ctx, caller)
		return cmp.Or(reuse, err)
	case in.RefreshToken == "":
		return err
	}
	if disabled, ok := errors.AsType[*api.Error](err); ok && disabled.Caller != nil { // is recorded as denied
		return err
	}
	f, err := readFamily(ctx, s.store.Read(), hashToken(in.RefreshToken)) // also if the access token has expired
	switch {
	case err != nil:
		return err
	case !f.rotated.IsZero():
		return s.rejectReuse(ctx, from, f)
	case !f.member.active():
		return f.usable(s.store.Now())
	}
	return s.logoutSession(ctx, from, f.member, f.session)
}

// logoutCaller ends the session of the caller, or revokes the CLI token.
func (s *Service) logoutCaller(ctx context.Context, caller api.Caller) error {
	if caller.Kind == api.CLI {
		return s.logoutToken(ctx, caller)
	}
	m := member{ID: caller.UserID, TenantID: caller.TenantID, Username: caller.UserName}
	return s.logoutSession(ctx, caller, m, caller.SessionID)
}

func (s *Service) logoutSession(ctx context.Context, from api.Caller, m member, session string) error {
	err := s.store.Change(ctx, store.Change{}, func(tx *store.Tx) error {
		ended, err := s.endSession(ctx, tx, m.TenantID, m.ID, session, endedByLogout)
		if err != nil {
			return err
		}
		if !ended {
			return api.TokenRevoked
		}
		tx.Record(actionLogout.Record(aboutSession(selfEvent(from, m), session, m.Username), sessionDetail{session}))
		return nil
	})
	s.invalidateUser(m.ID)
	return err
}

func (s *Service) logoutToken(ctx context.Context, caller api.Caller) error {
	err := s.store.Change(ctx, store.Change{}, func(tx *store.Tx) error {
		t, err := revokeToken(ctx, tx, caller.TenantID, caller.UserID, caller.TokenID, s.store.Now())
		if errors.Is(err, api.NotFound) {
			return api.TokenRevoked
		}
		if err != nil {
			return err
		}
		tx.Record(t.revoked(caller.Event(), caller.UserName))
		return nil
	})
	s.invalidateUser(caller.UserID)
	return err
}
