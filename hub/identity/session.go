package identity

import (
	"context"
	"database/sql"
	"net/http"
	"time"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/db"
	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/rbac"
)

const (
	accessTTL    = 15 * time.Minute
	sessionIdle  = 14 * 24 * time.Hour // since the last refresh
	sessionLimit = 90 * 24 * time.Hour // since the login
)

// Why a session ended.
const (
	endedByLogout   = "logout"
	endedByReuse    = "refresh_reuse"
	endedByPassword = "password"
	endedByRevoke   = "revoked"
	endedByDisable  = "disabled"
)

// loginBody is what every way to sign in answers.
type loginBody struct {
	AccessToken      string    `json:"access_token"`
	TokenType        string    `json:"token_type"`
	ExpiresIn        int64     `json:"expires_in"` // seconds
	RefreshToken     string    `json:"refresh_token"`
	RefreshExpiresIn int64     `json:"refresh_expires_in"`
	User             loginUser `json:"user"`

	session string // its id, for the audit log
}

type loginUser struct {
	ID          string    `json:"id"`
	Username    string    `json:"username"`
	DisplayName string    `json:"display_name"`
	Role        rbac.Role `json:"role"`
	TenantID    string    `json:"tenant_id"`
	OrgID       string    `json:"org_id"`
}

// newSession begins a session of m within the transaction that lets m in.
func (s *Service) newSession(ctx context.Context, tx *sql.Tx, m member, r *http.Request) (loginBody, error) {
	now, id := s.now(), ids.New()
	_, err := tx.ExecContext(ctx, `INSERT INTO sessions
			(id, tenant_id, user_id, created_at, last_used_at, idle_until, expires_at, remote_ip, user_agent)
		VALUES ($1, $2, $3, $4, $4, $5, $6, $7, $8)`,
		id, m.TenantID, m.ID, db.Micros(now), db.Micros(now.Add(sessionIdle)), db.Micros(now.Add(sessionLimit)),
		api.RemoteIP(r), api.UserAgent(r))
	if err != nil {
		return loginBody{}, fault("insert session", err)
	}
	return s.newTokens(ctx, tx, m, id, now, now.Add(sessionLimit))
}

// newTokens gives a session its next pair of tokens. Neither lives longer than the session, which ends at limit.
func (s *Service) newTokens(ctx context.Context, tx *sql.Tx, m member, session string, now, limit time.Time) (loginBody, error) {
	refresh, hash := newToken("rt_")
	_, err := tx.ExecContext(ctx, `INSERT INTO refresh_tokens (hash, session_id, created_at) VALUES ($1, $2, $3)`,
		hash, session, db.Micros(now))
	if err != nil {
		return loginBody{}, fault("insert refresh token", err)
	}
	expires, idle := earlier(now.Add(accessTTL), limit), earlier(now.Add(sessionIdle), limit)
	access, err := s.keys.sign(m, session, now, expires)
	if err != nil {
		return loginBody{}, err
	}
	return loginBody{
		AccessToken: access, TokenType: "Bearer", ExpiresIn: seconds(expires.Sub(now)),
		RefreshToken: refresh, RefreshExpiresIn: seconds(idle.Sub(now)),
		User: loginUser{ID: m.ID, Username: m.Username, DisplayName: m.DisplayName, Role: m.Role, TenantID: m.TenantID, OrgID: m.TenantID},

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

// endSessions ends all sessions of a user but one ("" for none), and answers the ids of those that were live. Call
// invalidateUser once the transaction is made.
func (s *Service) endSessions(ctx context.Context, tx *sql.Tx, userID, except, why string) (live []string, err error) {
	type session struct {
		id   string
		live bool
	}
	// Those that have expired end too: a refresh that came a moment before must not bring one back.
	all, err := collect(ctx, tx, "end sessions", func(row scanner) (one session, err error) {
		err = row.Scan(&one.id, &one.live)
		return one, err
	}, `UPDATE sessions SET revoked_at = $1, revoked_why = $2
		WHERE user_id = $3 AND id <> $4 AND revoked_at IS NULL RETURNING id, idle_until > $1 AND expires_at > $1`,
		db.Micros(s.now()), why, userID, except)
	for _, one := range all {
		if one.live {
			live = append(live, one.id)
		}
	}
	return live, err
}

// endSession tells whether there was such a session and this has ended it.
func (s *Service) endSession(ctx context.Context, tx *sql.Tx, userID, id, why string) (bool, error) {
	now := db.Micros(s.now())
	n, err := affected(ctx, tx, "end session", `UPDATE sessions SET revoked_at = $1, revoked_why = $2
		WHERE id = $3 AND user_id = $4 AND revoked_at IS NULL AND idle_until > $1 AND expires_at > $1`, now, why, id, userID)
	return n > 0, err
}

// revokeTokens ends all CLI tokens of a user, and tells how many were live. Call invalidateUser once the transaction is made.
func (s *Service) revokeTokens(ctx context.Context, tx *sql.Tx, userID string) (live int, err error) {
	all, err := collect(ctx, tx, "revoke tokens", func(row scanner) (alive bool, err error) {
		err = row.Scan(&alive)
		return alive, err
	}, `UPDATE cli_tokens SET revoked_at = $1 WHERE user_id = $2 AND revoked_at IS NULL RETURNING expires_at IS NULL OR expires_at > $1`,
		db.Micros(s.now()), userID)
	for _, alive := range all {
		if alive {
			live++
		}
	}
	return live, err
}

// invalidateUser makes this process read the user, their sessions and CLI tokens anew at their next request. It is called
// after the transaction that changed them was made and before its caller is answered.
func (s *Service) invalidateUser(userID string) { s.states.forget(userID) }

// record appends to the audit log within tx. It comes last in a transaction: it locks the log of the tenant.
func (s *Service) record(ctx context.Context, tx *sql.Tx, records ...auditlog.Record) error {
	return fault("record", s.cfg.Audit.AppendTx(ctx, tx, records...))
}

// selfEvent is the event of a request that is about the member who sent it, whether signed in yet or not.
func selfEvent(r *http.Request, m member) auditlog.Event {
	e := api.RequestEvent(r)
	e.TenantID, e.UserID, e.UserName = m.TenantID, m.ID, m.Username
	e.TargetType, e.TargetID, e.TargetName = targetUser, m.ID, m.Username
	return e
}

// aboutSession turns an event into one about a session of the user of that name.
func aboutSession(e auditlog.Event, id, username string) auditlog.Event {
	e.TargetType, e.TargetID, e.TargetName = targetSession, id, username
	return e
}
