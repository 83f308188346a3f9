package identity

import (
	"context"

	"github.com/seed93082962/agenthost/hub/store"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/rbac"
)

// SessionInfo is a live session as its user and administrators see it.
type SessionInfo struct {
	ID         string   `json:"id"`
	CreatedAt  api.Time `json:"createdAt"`
	LastUsedAt api.Time `json:"lastUsedAt"`
	RemoteIP   string   `json:"remoteIp"`
	UserAgent  string   `json:"userAgent"`
	Current    bool     `json:"current"`
}

// Sessions returns the live sessions of the caller, the last used first.
func (s *Service) Sessions(ctx context.Context, caller api.Caller, page api.Page) (api.List[SessionInfo], error) {
	return s.sessionsOf(ctx, caller.TenantID, caller.UserID, caller.SessionID, page)
}

// sessionsOf returns the live sessions of a user. The one with the id current is marked.
func (s *Service) sessionsOf(ctx context.Context, tenantID, userID, current string, page api.Page) (list api.List[SessionInfo], err error) {
	list.Items, list.Total, err = liveSessions(ctx, s.store.Read(), tenantID, userID, s.store.Now(), page)
	for i := range list.Items {
		list.Items[i].Current = list.Items[i].ID == current
	}
	return list, err
}

// RevokeSession ends a session of the caller.
func (s *Service) RevokeSession(ctx context.Context, caller api.Caller, id string) error {
	id, err := parseID(id)
	if err != nil {
		return err
	}
	err = s.change(ctx, caller, rbac.Group{}, func(tx *store.Tx) error {
		ended, err := s.endSession(ctx, tx, caller.TenantID, caller.UserID, id, endedByRevoke)
		if err != nil {
			return err
		}
		if !ended {
			return api.NotFound.New("You have no such session, or it has ended.")
		}
		tx.Record(actionRevokeSession.Record(aboutSession(caller.Event(), id, caller.UserName), sessionDetail{id}))
		return nil
	})
	s.invalidateUser(caller.UserID)
	return err
}
