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
	accessTTL    = 15 * time.Minute
	sessionIdle  = 14 * 24 * time.Hour // since the last refresh
	sessionLimit = 90 * 24 * time.Hour // since the login
	maxSessions  = 100                 // live sessions of a user, and as many ended ones
)

// Why a session ended.
const (
	endedByLogout   = "logout"
	endedByReuse    = "refresh_reuse"
	endedByPassword = "password"
	endedByRevoke   = "revoked"
	endedByDisable  = "disabled"
	endedByProvider = "provider_logout"
	endedByLimit    = "limit" // the user signed in too often
	endedByOrg      = "organization"
)

// SignIn is a session with its first or next pair of tokens.
type SignIn struct {
	AccessToken      string     `json:"access_token"`
	TokenType        string     `json:"token_type"`
	ExpiresIn        int64      `json:"expires_in"` // seconds
	RefreshToken     string     `json:"refresh_token"`
	RefreshExpiresIn int64      `json:"refresh_expires_in"`
	User             SignInUser `json:"user"`

	MustChangePassword bool `json:"must_change_password,omitempty"`

	session string // its id, for the audit log
	evicted int    // sessions that ended to make room for this one
}

// SignInUser is the user of a session.
type SignInUser struct {
	ID          string    `json:"id"`
	Username    string    `json:"username"`
	DisplayName string    `json:"display_name"`
	Role        rbac.Role `json:"role"`
	TenantID    string    `json:"tenant_id"`
	OrgID       string    `json:"org_id"`
}

// newSession begins a session of m in the transaction of the sign-in. provider is the session at
// the identity provider, or "".
func (s *Service) newSession(ctx context.Context, tx *store.Tx, m member, from api.Caller, provider string) (SignIn, error) {
	now, id := s.store.Now(), ids.New()
	if err := insertSession(ctx, tx, m, id, provider, now, from); err != nil {
		return SignIn{}, err
	}
	body, err := s.newTokens(ctx, tx, m, id, now, now.Add(sessionLimit))
	if err != nil {
		return SignIn{}, err
	}
	body.evicted, err = evictSessions(ctx, tx, m, id, now)
	return body, err
}

// newTokens issues the next pair of tokens of a session. Neither is valid after limit, the end of
// the session.
func (s *Service) newTokens(ctx context.Context, tx *store.Tx, m member, session string, now, limit time.Time) (SignIn, error) {
	refresh, hash := newToken("rt_")
	if err := insertRefreshToken(ctx, tx, hash, session, now); err != nil {
		return SignIn{}, err
	}
	expires, idle := earlier(now.Add(accessTTL), limit), earlier(now.Add(sessionIdle), limit)
	access, err := s.keys.sign(m, session, now, expires)
	if err != nil {
		return SignIn{}, err
	}
	return SignIn{
		AccessToken: access, TokenType: "Bearer", ExpiresIn: seconds(expires.Sub(now)),
		RefreshToken: refresh, RefreshExpiresIn: seconds(idle.Sub(now)),
		User:               SignInUser{ID: m.ID, Username: m.Username, DisplayName: m.DisplayName, Role: m.Role, TenantID: m.TenantID, OrgID: m.TenantID},
		MustChangePassword: m.MustChange,

		session: session,
	}, nil
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func seconds(d time.Duration) int64 { return int64(d / time.Second) }

// invalidateUser removes the sessions and CLI tokens of the user from the cache of this process,
// and checks the requests of the user in progress. Call it after the commit and before the response
// is written.
func (s *Service) invalidateUser(userID string) {
	s.states.forget(userID)
	if s.watcher != nil { // not offline
		s.watcher.userChanged(userID)
	}
}

// selfEvent returns the event of a request whose target is the member who sent it, signed in or
// not.
func selfEvent(from api.Caller, m member) auditlog.Event {
	e := from.Event()
	e.TenantID, e.UserID, e.UserName = m.TenantID, m.ID, m.Username
	e.TargetType, e.TargetID, e.TargetName = targetUser, m.ID, m.Username
	return e
}

// aboutSession returns e with a session of the named user as its target.
func aboutSession(e auditlog.Event, id, username string) auditlog.Event {
	e.TargetType, e.TargetID, e.TargetName = targetSession, id, username
	return e
}
