package chat

import (
	"context"
	"time"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/rbac"
)

// Filter selects sessions. Empty fields select all.
type Filter struct {
	Agent, Source string

	User     string    // part of the name or the id of the user, in any letter case
	From, To time.Time // of the creation, inclusive
}

// visible returns the owner whose sessions the caller may see: a member only its own, others those
// of all users, which is "".
func visible(caller api.Caller) (userID string, err error) {
	if err := rbac.AdminRead.Check(caller); err != nil {
		return "", err
	}
	if caller.UserID == "" || caller.TenantID == "" {
		return "", api.Unauthenticated
	}
	if rbac.AdminWrite.Check(caller) == nil {
		return "", nil
	}
	return caller.UserID, nil
}

// AllSessions returns the sessions that the caller may see, with every agent, the latest change
// first.
func (s *Service) AllSessions(ctx context.Context, caller api.Caller, f Filter, page api.Page) (api.List[Session], error) {
	owner, err := visible(caller)
	if err != nil {
		return api.List[Session]{}, err
	}
	if !f.From.IsZero() && !f.To.IsZero() && f.From.After(f.To) {
		return api.List[Session]{}, nil
	}
	return s.list(ctx, filter{
		TenantID: caller.TenantID, UserID: owner, AgentName: f.Agent, Source: f.Source, User: f.User, From: f.From, To: f.To,
	}, page)
}

// anySession returns the reference to a session that the caller may see. Without userID, the owner
// may be any user.
func anySession(caller api.Caller, id, userID string) (reference, error) {
	owner, err := visible(caller)
	if err != nil {
		return reference{}, err
	}
	if owner != "" && userID != "" && owner != userID {
		return reference{}, noSession()
	}
	if owner != "" {
		userID = owner
	}
	return reference{TenantID: caller.TenantID, UserID: userID, ID: id}, nil
}

// AnySession returns a session that the caller may see. userID is the id of its owner, and may be
// empty unless several users have a session with the id.
func (s *Service) AnySession(ctx context.Context, caller api.Caller, id, userID string) (Session, error) {
	ref, err := anySession(caller, id, userID)
	if err != nil {
		return Session{}, err
	}
	found, err := findSession(ctx, s.db.Read(), ref)
	return found.view(), err
}

// AnyMessages returns the messages of a session that the caller may see, the oldest first.
func (s *Service) AnyMessages(ctx context.Context, caller api.Caller, id, userID string, page MessagePage) (MessageList, error) {
	ref, err := anySession(caller, id, userID)
	if err != nil {
		return MessageList{}, err
	}
	return s.messages(ctx, ref, page)
}

// DeleteAnySession deletes a session that the caller may see.
func (s *Service) DeleteAnySession(ctx context.Context, caller api.Caller, id, userID string) error {
	ref, err := anySession(caller, id, userID)
	if err != nil {
		return err
	}
	return s.delete(ctx, caller, ref)
}
