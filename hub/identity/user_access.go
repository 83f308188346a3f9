package identity

import (
	"context"

	"github.com/seed93082962/agenthost/hub/store"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/rbac"
)

// UserSessions returns the live sessions of a user, the last used first.
func (s *Service) UserSessions(ctx context.Context, caller api.Caller, id string, page api.Page) (api.List[SessionInfo], error) {
	m, err := userOf(ctx, s.store.Read(), caller, id)
	if err != nil {
		return api.List[SessionInfo]{}, err
	}
	return s.sessionsOf(ctx, m.TenantID, m.ID, caller.SessionID, page)
}

// EndUserSessions ends all live sessions of a user, with an audit entry for each. These may be the
// caller's own.
func (s *Service) EndUserSessions(ctx context.Context, caller api.Caller, id string) error {
	var m member
	err := s.change(ctx, caller, rbac.AdminOnly, func(tx *store.Tx) (err error) {
		if m, err = userOf(ctx, tx, caller, id); err != nil {
			return err
		}
		ended, err := s.endSessions(ctx, tx, m, "", endedByRevoke)
		if err != nil || len(ended) == 0 {
			return err
		}
		var records []auditlog.Record
		for _, id := range ended {
			records = append(records, actionRevokeSession.Record(aboutSession(caller.Event(), id, m.Username), sessionDetail{id}))
		}
		tx.Record(records...)
		return nil
	})
	s.invalidateUser(m.ID)
	return err
}

// UserTokens returns the CLI tokens of a user that were not revoked, the newest first.
func (s *Service) UserTokens(ctx context.Context, caller api.Caller, id string, page api.Page) (api.List[Token], error) {
	m, err := userOf(ctx, s.store.Read(), caller, id)
	if err != nil {
		return api.List[Token]{}, err
	}
	return s.tokensOf(ctx, m.TenantID, m.ID, page)
}

// RevokeUserToken revokes a CLI token of a user.
func (s *Service) RevokeUserToken(ctx context.Context, caller api.Caller, id, tokenID string) error {
	return s.revokeTokenOf(ctx, caller, tokenID, rbac.AdminOnly, func(tx *store.Tx) (member, error) {
		return userOf(ctx, tx, caller, id)
	})
}
