package identity

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/seed93082962/agenthost/hub/store"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/db"
)

// insertSession stores a new session of m. provider is the session at the identity provider, or "".
func insertSession(ctx context.Context, tx *store.Tx, m member, id, provider string, now time.Time, from api.Caller) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO sessions
			(id, tenant_id, user_id, created_at, last_used_at, idle_until, expires_at, remote_ip, network, address, user_agent, provider_session)
		VALUES ($1, $2, $3, $4, $4, $5, $6, $7, $8, $9, $10, $11)`,
		id, m.TenantID, m.ID, db.Micros(now), db.Micros(now.Add(sessionIdle)), db.Micros(now.Add(sessionLimit)),
		from.RemoteIP, networkOf(from.RemoteIP), addressOf(from.RemoteIP), from.UserAgent, nullText(provider))
	return db.Wrap("insert session", err)
}

// readSession reads a session and its member. A session that does not exist was deleted with its
// member, or long after its end.
func (s *Service) readSession(ctx context.Context, id string, st *state) error {
	var (
		revoked                 sql.NullInt64
		why                     sql.NullString
		idle, expires, lastUsed int64
	)
	st.read = s.keys.reads.Add(1)
	m, err := scanMember(s.store.Read().QueryRowContext(ctx, `SELECT `+memberColumns+`, s.revoked_at, s.revoked_why, s.idle_until, s.expires_at, s.last_used_at,
			COALESCE((SELECT id FROM signing_keys WHERE retired_at IS NULL), '')
		FROM sessions s JOIN members m ON m.id = s.user_id AND m.tenant_id = s.tenant_id WHERE s.id = $1`, id), &revoked, &why, &idle, &expires, &lastUsed, &st.signing)
	if errors.Is(err, sql.ErrNoRows) {
		return api.TokenRevoked
	}
	if err != nil {
		return db.Wrap("read session", err)
	}
	st.fill(s, m, revoked, lastUsed)
	st.endedByDisable = why.String == endedByDisable
	st.expires = db.Time(min(idle, expires))
	st.caller.Kind, st.caller.SessionID = api.Session, id
	return nil
}

// liveSessions returns a page of the live sessions of a user, the last used first, and the number
// of all.
func liveSessions(ctx context.Context, q db.Querier, tenantID, userID string, now time.Time, page api.Page) (items []SessionInfo, total int, err error) {
	const live = ` FROM sessions WHERE tenant_id = $1 AND user_id = $2 AND revoked_at IS NULL AND idle_until > $3 AND expires_at > $3`
	err = q.QueryRowContext(ctx, `SELECT COUNT(*)`+live, tenantID, userID, db.Micros(now)).Scan(&total)
	if err != nil {
		return nil, 0, db.Wrap("count sessions", err)
	}
	items, err = db.Collect(ctx, q, "list sessions", func(row db.Scanner) (item SessionInfo, err error) {
		var created, used int64
		err = row.Scan(&item.ID, &created, &used, &item.RemoteIP, &item.UserAgent)
		item.CreatedAt, item.LastUsedAt = api.Time(db.Time(created)), api.Time(db.Time(used))
		return item, err
	}, `SELECT id, created_at, last_used_at, remote_ip, user_agent`+live+` ORDER BY last_used_at DESC, id DESC LIMIT $4 OFFSET $5`,
		tenantID, userID, db.Micros(now), page.Size, page.Offset())
	return items, total, err
}

// extendSession records a refresh of a session. It reports false if the session has ended.
func extendSession(ctx context.Context, tx *store.Tx, tenantID, id string, now time.Time, from api.Caller) (bool, error) {
	n, err := db.Affected(ctx, tx, "update session", `UPDATE sessions SET last_used_at = $1, idle_until = $2, remote_ip = $3, user_agent = $4
		WHERE tenant_id = $5 AND id = $6 AND revoked_at IS NULL`,
		db.Micros(now), db.Micros(now.Add(sessionIdle)), from.RemoteIP, from.UserAgent, tenantID, id)
	return n > 0, err
}

// evictSessions ends the oldest live sessions of a user beyond maxSessions, and deletes the oldest
// ended ones beyond as many. The session with the given id stays. The row of the user is locked.
func evictSessions(ctx context.Context, tx *store.Tx, m member, id string, now time.Time) (evicted int, err error) {
	var all int
	err = tx.QueryRowContext(ctx, `SELECT COUNT(*) FROM sessions WHERE tenant_id = $1 AND user_id = $2`, m.TenantID, m.ID).Scan(&all)
	if err != nil || all <= maxSessions { // nearly always
		return 0, db.Wrap("count sessions", err)
	}
	const live = `tenant_id = $6 AND user_id = $1 AND id <> $2 AND revoked_at IS NULL AND idle_until > $3 AND expires_at > $3`
	n, err := db.Affected(ctx, tx, "evict sessions", `UPDATE sessions SET revoked_at = $3, revoked_why = $4 WHERE `+live+`
		AND id NOT IN (SELECT id FROM sessions WHERE `+live+` ORDER BY created_at DESC, id DESC LIMIT $5)`,
		m.ID, id, db.Micros(now), endedByLimit, maxSessions-1, m.TenantID)
	if err != nil {
		return 0, err
	}
	const ended = `tenant_id = $5 AND user_id = $1 AND id <> $2 AND (revoked_at IS NOT NULL OR idle_until <= $3 OR expires_at <= $3)`
	_, err = db.Affected(ctx, tx, "delete sessions", `DELETE FROM sessions WHERE `+ended+`
		AND id NOT IN (SELECT id FROM sessions WHERE `+ended+` ORDER BY created_at DESC, id DESC LIMIT $4)`,
		m.ID, id, db.Micros(now), maxSessions, m.TenantID)
	return int(n), err
}

// endSessions ends all sessions of a user but one ("" for none), and returns the ids of the live
// ones. Call invalidateUser after the commit.
func (s *Service) endSessions(ctx context.Context, tx *store.Tx, m member, except, why string) (live []string, err error) {
	type session struct {
		id   string
		live bool
	}
	// Expired sessions end too: a concurrent refresh must not extend one.
	all, err := db.Collect(ctx, tx, "end sessions", func(row db.Scanner) (one session, err error) {
		err = row.Scan(&one.id, &one.live)
		return one, err
	}, `UPDATE sessions SET revoked_at = $1, revoked_why = $2
		WHERE tenant_id = $5 AND user_id = $3 AND id <> $4 AND revoked_at IS NULL RETURNING id, idle_until > $1 AND expires_at > $1`,
		db.Micros(s.store.Now()), why, m.ID, except, m.TenantID)
	for _, one := range all {
		if one.live {
			live = append(live, one.id)
		}
	}
	return live, err
}

// endSession ends a live session of the user, and reports whether there was one.
func (s *Service) endSession(ctx context.Context, tx *store.Tx, tenantID, userID, id, why string) (bool, error) {
	now := db.Micros(s.store.Now())
	n, err := db.Affected(ctx, tx, "end session", `UPDATE sessions SET revoked_at = $1, revoked_why = $2
		WHERE tenant_id = $5 AND id = $3 AND user_id = $4 AND revoked_at IS NULL AND idle_until > $1 AND expires_at > $1`,
		now, why, id, userID, tenantID)
	return n > 0, err
}
