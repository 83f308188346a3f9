package session

import (
	"context"
	"database/sql"
	"time"

	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/internal/user"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
)

// origin is what a session has from its beginning.
type origin struct {
	id       string
	idle     time.Time // when it ends without a refresh
	limit    time.Time // when it ends
	provider string    // the session at the identity provider, or ""
	device   string    // of its device token
	wrong    int64     // incorrect passwords that the sessions of the device gave
}

// deviceColumn is the device of a session s. Sessions of an earlier version have none.
const deviceColumn = `CASE WHEN s.device = '' THEN s.id ELSE s.device END`

// readOrigin returns the origin of the session of the caller.
func readOrigin(ctx context.Context, tx *store.Tx, caller api.Caller) (origin, error) {
	var idle, limit int64
	var provider sql.NullString
	var o origin
	err := tx.QueryRowContext(ctx, `SELECT id, idle_until, expires_at, provider_session, `+deviceColumn+`, wrong_passwords
		FROM sessions s WHERE tenant_id = $1 AND id = $2`, caller.TenantID, caller.SessionID).
		Scan(&o.id, &idle, &limit, &provider, &o.device, &o.wrong)
	o.idle = db.Time(idle)
	o.limit = db.Time(limit)
	o.provider = provider.String
	return o, db.WrapOne("read session", err, wire.TokenRevoked)
}

// insertSession stores a new session of a user.
func insertSession(ctx context.Context, tx *store.Tx, u user.User, o origin, from api.Caller) error {
	return db.Exec(ctx, tx, "insert session", `INSERT INTO sessions
			(id, tenant_id, user_id, created_at, last_used_at, idle_until, expires_at, remote_ip, network, user_agent, provider_session, device, wrong_passwords)
		VALUES ($1, $2, $3, $4, $4, $5, $6, $7, $8, $9, $10, $11, $12)`,
		o.id, u.TenantID, u.ID, db.Micros(tx.Now), db.Micros(o.idle), db.Micros(o.limit),
		from.RemoteIP, api.NetworkOf(from.RemoteIP), from.UserAgent, sql.NullString{String: o.provider, Valid: o.provider != ""}, o.device, o.wrong)
}

// readSession reads a session and its user. A session that does not exist was deleted with its
// user, or long after its end.
func (s *Service) readSession(ctx context.Context, id string, st *state) error {
	var (
		revoked                 sql.NullInt64
		why                     sql.NullString
		idle, expires, lastUsed int64
	)
	st.read = s.keys.Reads()
	u, err := user.Scan(s.store.Read().QueryRowContext(ctx, `SELECT `+user.Columns+`, s.revoked_at, s.revoked_why, s.idle_until, s.expires_at, s.last_used_at,
			COALESCE((SELECT id FROM signing_keys WHERE retired_at IS NULL), ''), `+deviceColumn+`
		FROM sessions s JOIN members m ON m.id = s.user_id AND m.tenant_id = s.tenant_id WHERE s.id = $1`, id), &revoked, &why, &idle, &expires, &lastUsed, &st.signing, &st.device)
	if err != nil {
		return db.WrapOne("read session", err, wire.TokenRevoked)
	}

	st.fill(s, u, revoked.Valid, lastUsed)
	st.endedByDisable = why.String == user.EndedByDisable
	st.expires = db.Time(min(idle, expires))
	st.caller.Kind, st.caller.SessionID = api.Session, id
	return nil
}

// liveSessions returns a page of the live sessions of a user of the caller's tenant, the last used
// first, and the number of all.
func (s *Service) liveSessions(ctx context.Context, caller api.Caller, userID string, page api.Page) ([]wire.Session, int, error) {
	part := db.Page{Order: `last_used_at DESC, id DESC`, Limit: page.Size, Offset: page.Offset()}
	return db.List(ctx, s.store.Read(), "list sessions", func(row db.Scanner) (item wire.Session, err error) {
		err = row.Scan(&item.ID, &item.CreatedAt, &item.LastUsedAt, &item.RemoteIP, &item.UserAgent)
		item.Current = item.ID == caller.SessionID
		return item, err
	}, part, `SELECT id, created_at, last_used_at, remote_ip, user_agent FROM sessions
		WHERE tenant_id = $1 AND user_id = $2 AND revoked_at IS NULL AND idle_until > $3 AND expires_at > $3`,
		caller.TenantID, userID, db.Micros(s.store.Now()))
}

// extendSession records a refresh of a session. It reports false if the session has ended.
func extendSession(ctx context.Context, tx *store.Tx, tenantID, id string, from api.Caller) (bool, error) {
	n, err := db.Affected(ctx, tx, "update session", `UPDATE sessions SET last_used_at = $1, idle_until = $2, remote_ip = $3, user_agent = $4
		WHERE tenant_id = $5 AND id = $6 AND revoked_at IS NULL`,
		db.Micros(tx.Now), db.Micros(tx.Now.Add(sessionIdle)), from.RemoteIP, from.UserAgent, tenantID, id)
	return n > 0, err
}

// evictSessions ends the oldest live sessions of a user beyond maxSessions, and deletes the oldest
// ended ones beyond as many. The session with the given id stays. Codes of programs do not count.
// The row of the user is locked.
func evictSessions(ctx context.Context, tx *store.Tx, u user.User, id string) (int, error) {
	all, err := db.Value[int](ctx, tx, "count sessions", `SELECT COUNT(*) FROM sessions WHERE tenant_id = $1 AND user_id = $2`, u.TenantID, u.ID)
	if err != nil || all <= maxSessions { // nearly always
		return 0, err
	}

	const live = `tenant_id = $6 AND user_id = $1 AND id <> $2 AND revoked_at IS NULL AND idle_until > $3 AND expires_at > $3 AND idle_until > created_at + $7`
	n, err := db.Affected(ctx, tx, "evict sessions", `UPDATE sessions SET revoked_at = $3, revoked_why = $4 WHERE `+live+`
		AND id NOT IN (SELECT id FROM sessions WHERE `+live+` ORDER BY created_at DESC, id DESC LIMIT $5)`,
		u.ID, id, db.Micros(tx.Now), user.EndedByLimit, maxSessions-1, u.TenantID, codeLife.Microseconds())
	if err != nil {
		return 0, err
	}

	const ended = `tenant_id = $5 AND user_id = $1 AND id <> $2 AND (revoked_at IS NOT NULL OR idle_until <= $3 OR expires_at <= $3)`
	err = db.Exec(ctx, tx, "delete sessions", `DELETE FROM sessions WHERE `+ended+`
		AND id NOT IN (SELECT id FROM sessions WHERE `+ended+` ORDER BY created_at DESC, id DESC LIMIT $4)`,
		u.ID, id, db.Micros(tx.Now), maxSessions, u.TenantID)
	return int(n), err
}

// deleteCodes deletes the oldest sessions of a user beyond maxCodes whose code was not exchanged.
// Only these have no more than codeLife. The row of the user is locked.
func deleteCodes(ctx context.Context, tx *store.Tx, u user.User) error {
	const codes = `tenant_id = $1 AND user_id = $2 AND revoked_at IS NULL AND idle_until <= created_at + $3`
	return db.Exec(ctx, tx, "delete codes", `DELETE FROM sessions WHERE `+codes+`
		AND id NOT IN (SELECT id FROM sessions WHERE `+codes+` ORDER BY created_at DESC, id DESC LIMIT $4)`,
		u.TenantID, u.ID, codeLife.Microseconds(), maxCodes)
}

// isLive reports whether a session of the user has not ended.
func isLive(ctx context.Context, tx *store.Tx, u user.User, id string) (bool, error) {
	return db.Value[bool](ctx, tx, "read session", `SELECT EXISTS (SELECT 1 FROM sessions
		WHERE tenant_id = $1 AND user_id = $2 AND id = $3 AND revoked_at IS NULL AND idle_until > $4 AND expires_at > $4)`,
		u.TenantID, u.ID, id, db.Micros(tx.Now))
}

// endSession ends a live session of the user, and reports whether there was one.
func endSession(ctx context.Context, tx *store.Tx, tenantID, userID, id, why string) (bool, error) {
	n, err := db.Affected(ctx, tx, "end session", `UPDATE sessions SET revoked_at = $1, revoked_why = $2
		WHERE tenant_id = $5 AND id = $3 AND user_id = $4 AND revoked_at IS NULL AND idle_until > $1 AND expires_at > $1`,
		db.Micros(tx.Now), why, id, userID, tenantID)
	return n > 0, err
}

// countWrongPassword counts an incorrect password of a session for all sessions of its device, and
// ends them when there are maxWrongPasswords. It returns for each live one whether it ended.
func countWrongPassword(ctx context.Context, tx *store.Tx, caller api.Caller, device string) ([]bool, error) {
	return db.Values[bool](ctx, tx, "count incorrect password", `UPDATE sessions AS s SET wrong_passwords = s.wrong_passwords + 1,
			revoked_at = CASE WHEN s.wrong_passwords + 1 >= $1 THEN CAST($2 AS BIGINT) END, revoked_why = CASE WHEN s.wrong_passwords + 1 >= $1 THEN $3 END
		WHERE s.tenant_id = $4 AND s.user_id = $5 AND `+deviceColumn+` = $6 AND s.revoked_at IS NULL RETURNING revoked_at IS NOT NULL`,
		maxWrongPasswords, db.Micros(tx.Now), user.EndedByPassword, caller.TenantID, caller.UserID, device)
}

// clearWrongPasswords forgets the incorrect passwords of the sessions of a user.
func clearWrongPasswords(ctx context.Context, tx *store.Tx, u user.User) error {
	return db.Exec(ctx, tx, "clear incorrect passwords",
		`UPDATE sessions SET wrong_passwords = 0 WHERE tenant_id = $1 AND user_id = $2 AND wrong_passwords > 0`, u.TenantID, u.ID)
}

// insertRefreshToken stores the next refresh token of a session.
func insertRefreshToken(ctx context.Context, tx *store.Tx, hash []byte, session string) error {
	return db.Exec(ctx, tx, "insert refresh token", `INSERT INTO refresh_tokens (hash, session_id, created_at) VALUES ($1, $2, $3)`,
		hash, session, db.Micros(tx.Now))
}

// rotateRefreshToken marks a token as used. It reports false if it was used before.
func rotateRefreshToken(ctx context.Context, tx *store.Tx, hash []byte) (bool, error) {
	n, err := db.Affected(ctx, tx, "rotate refresh token", `UPDATE refresh_tokens SET rotated_at = $1 WHERE hash = $2 AND rotated_at IS NULL`,
		db.Micros(tx.Now), hash)
	return n > 0, err
}

// refreshBefore returns the time of the rotation of a session that has n later ones after from and
// not after to. It returns the zero time if there are fewer.
func refreshBefore(ctx context.Context, tx *store.Tx, session string, from, to time.Time, n int) (time.Time, error) {
	var at wire.Time
	err := tx.QueryRowContext(ctx, `SELECT rotated_at FROM refresh_tokens WHERE session_id = $1 AND rotated_at > $2 AND rotated_at <= $3
		ORDER BY rotated_at DESC LIMIT 1 OFFSET $4`, session, db.Micros(from), db.Micros(to), n).Scan(&at)
	return at.Time, db.WrapOne("read refreshes", err, nil)
}

// readFamily reads the session and the user of a refresh token.
func readFamily(ctx context.Context, q db.Querier, hash []byte) (family, error) {
	var (
		revoked, rotated sql.NullInt64
		idle, limit      int64
		issued           int64
		why              sql.NullString
	)
	var f family
	var err error
	f.user, err = user.Scan(q.QueryRowContext(ctx, `SELECT `+user.Columns+`, s.id, s.revoked_at, s.revoked_why, s.idle_until, s.expires_at, t.created_at, t.rotated_at, `+deviceColumn+`
		FROM refresh_tokens t JOIN sessions s ON s.id = t.session_id JOIN members m ON m.id = s.user_id AND m.tenant_id = s.tenant_id WHERE t.hash = $1`, hash),
		&f.session, &revoked, &why, &idle, &limit, &issued, &rotated, &f.device)
	f.revoked = revoked.Valid
	f.why = why.String
	f.idle = db.Time(idle)
	f.limit = db.Time(limit)
	f.issued = db.Time(issued)
	f.rotated = db.NullTime(rotated)
	return f, db.WrapOne("read session", err, wire.Unauthenticated.New("The refresh token is unknown: sign in again."))
}

// endProviderSessions ends the sessions of a logout, and returns how many live ones each user had.
func endProviderSessions(ctx context.Context, tx *store.Tx, out ExternalLogout) (map[string]int, error) {
	ended := map[string]int{}
	_, err := db.Collect(ctx, tx, "end sessions", func(row db.Scanner) (live bool, err error) {
		var user string
		if err = row.Scan(&user, &live); err != nil {
			return false, err
		}

		ended[user] += 0
		if live {
			ended[user]++
		}

		return live, nil
	}, `UPDATE sessions SET revoked_at = $1, revoked_why = $2 WHERE tenant_id = $3 AND revoked_at IS NULL
			AND ($4 = '' OR provider_session = $4 OR $6 <> '' AND provider_session IS NULL)
			AND user_id IN (SELECT id FROM members WHERE tenant_id = $3 AND issuer = $5 AND ($6 = '' OR subject = $6))
		RETURNING user_id, idle_until > $1 AND expires_at > $1`,
		db.Micros(tx.Now), user.EndedByProvider, out.TenantID, out.SessionID, out.Issuer, out.Subject)
	return ended, err
}

// recordUse records the use of a session, unless one was recorded after a time, in microseconds.
func recordUse(ctx context.Context, q db.Querier, id string, at, after int64) error {
	return db.Exec(ctx, q, "record use of session",
		`UPDATE sessions SET last_used_at = $1 WHERE id = $2 AND last_used_at <= $3`, at, id, after)
}

// deleteSessions deletes the sessions of all tenants that ended before a time.
func deleteSessions(ctx context.Context, q db.Querier, before time.Time) error {
	return db.Exec(ctx, q, "delete sessions",
		`DELETE FROM sessions WHERE expires_at < $1 OR idle_until < $1 OR revoked_at < $1`, db.Micros(before))
}
