package identity

import (
	"context"
	"time"

	"github.com/seed93082962/agenthost/hub/store"

	"github.com/seed93082962/agenthost/hub/db"
)

// endExternalAccess ends the sessions and CLI tokens of external members, except those of an issuer.
func endExternalAccess(ctx context.Context, tx *store.Tx, tenantID, keepIssuer string, now time.Time) (ended EndedAccess, err error) {
	const users = `user_id IN (SELECT id FROM members WHERE tenant_id = $1 AND auth_source = $2 AND issuer <> $3)`
	if ended.Sessions, err = liveRows(ctx, tx, "end sessions", `UPDATE sessions SET revoked_at = $4, revoked_why = $5
		WHERE tenant_id = $1 AND `+users+` AND revoked_at IS NULL RETURNING idle_until > $4 AND expires_at > $4`,
		tenantID, sourceExternal, keepIssuer, db.Micros(now), endedByOrg); err != nil {
		return ended, err
	}
	ended.Tokens, err = liveRows(ctx, tx, "revoke tokens", `UPDATE cli_tokens SET revoked_at = $4
		WHERE tenant_id = $1 AND `+users+` AND revoked_at IS NULL RETURNING expires_at IS NULL OR expires_at > $4`,
		tenantID, sourceExternal, keepIssuer, db.Micros(now))
	return ended, err
}

// liveRows runs a statement that returns for each row whether it was live, and returns their number.
func liveRows(ctx context.Context, tx *store.Tx, what, query string, args ...any) (live int, err error) {
	all, err := db.Collect(ctx, tx, what, func(row db.Scanner) (alive bool, err error) {
		err = row.Scan(&alive)
		return alive, err
	}, query, args...)
	for _, alive := range all {
		if alive {
			live++
		}
	}
	return live, err
}

func hasMembers(ctx context.Context, q db.Querier, tenantID string) (has bool, err error) {
	err = q.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM members WHERE tenant_id = $1)`, tenantID).Scan(&has)
	return has, db.Wrap("read members", err)
}
