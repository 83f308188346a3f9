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

// insertRefreshToken stores the next refresh token of a session.
func insertRefreshToken(ctx context.Context, tx *store.Tx, hash []byte, session string, now time.Time) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO refresh_tokens (hash, session_id, created_at) VALUES ($1, $2, $3)`,
		hash, session, db.Micros(now))
	return db.Wrap("insert refresh token", err)
}

// rotateRefreshToken marks a token as used. It reports false if it was used before.
func rotateRefreshToken(ctx context.Context, tx *store.Tx, hash []byte, now time.Time) (bool, error) {
	n, err := db.Affected(ctx, tx, "rotate refresh token", `UPDATE refresh_tokens SET rotated_at = $1 WHERE hash = $2 AND rotated_at IS NULL`,
		db.Micros(now), hash)
	return n > 0, err
}

// refreshBefore returns the time of the rotation of a session that has n later ones after from and
// not after to. It returns the zero time if there are fewer.
func refreshBefore(ctx context.Context, tx *store.Tx, session string, from, to time.Time, n int) (time.Time, error) {
	var at int64
	err := tx.QueryRowContext(ctx, `SELECT rotated_at FROM refresh_tokens WHERE session_id = $1 AND rotated_at > $2 AND rotated_at <= $3
		ORDER BY rotated_at DESC LIMIT 1 OFFSET $4`, session, db.Micros(from), db.Micros(to), n).Scan(&at)
	if errors.Is(err, sql.ErrNoRows) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, db.Wrap("read refreshes", err)
	}
	return db.Time(at), nil
}

// readFamily reads the session and the member of a refresh token.
func readFamily(ctx context.Context, q db.Querier, hash []byte) (f family, err error) {
	var (
		revoked, rotated sql.NullInt64
		idle, limit      int64
		why              sql.NullString
	)
	f.member, err = scanMember(q.QueryRowContext(ctx, `SELECT `+memberColumns+`, s.id, s.revoked_at, s.revoked_why, s.idle_until, s.expires_at, t.rotated_at
		FROM refresh_tokens t JOIN sessions s ON s.id = t.session_id JOIN members m ON m.id = s.user_id AND m.tenant_id = s.tenant_id WHERE t.hash = $1`, hash),
		&f.session, &revoked, &why, &idle, &limit, &rotated)
	if errors.Is(err, sql.ErrNoRows) {
		return f, api.Unauthenticated.New("The refresh token is unknown: sign in again.")
	}
	f.revoked = revoked.Valid
	f.why = why.String
	f.idle = db.Time(idle)
	f.limit = db.Time(limit)
	f.rotated = db.NullTime(rotated)
	return f, db.Wrap("read session", err)
}
