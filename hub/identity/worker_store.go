package identity

import (
	"context"
	"time"

	"github.com/seed93082962/agenthost/hub/db"
)

// The worker maintains the rows of all tenants.

// updateLastUse records the use of a session or a CLI token, unless another replica has recorded
// one within useEvery.
func updateLastUse(ctx context.Context, q db.Querier, u use, at seen) error {
	before := at.at - useEvery.Microseconds()
	if u.session != "" {
		_, err := q.ExecContext(ctx, `UPDATE sessions SET last_used_at = $1 WHERE id = $2 AND last_used_at <= $3`, at.at, u.session, before)
		return err
	}
	_, err := q.ExecContext(ctx, `UPDATE cli_tokens SET last_used_at = $1, last_used_ip = $2
		WHERE id = $3 AND (last_used_at IS NULL OR last_used_at <= $4)`, at.at, at.remoteIP, u.token, before)
	return err
}

// deleteExpired deletes the rows that ended long enough ago.
func deleteExpired(ctx context.Context, q db.Querier, now time.Time) error {
	for _, old := range []struct {
		query  string
		before time.Time
	}{
		{`DELETE FROM sessions WHERE expires_at < $1 OR idle_until < $1 OR revoked_at < $1`, now.Add(-keepEnded)},
		{`DELETE FROM cli_tokens WHERE expires_at < $1 OR revoked_at < $1`, now.Add(-keepShown)},
		{`DELETE FROM invites WHERE expires_at < $1 OR used_at < $1 OR revoked_at < $1`, now.Add(-keepShown)},
		{`DELETE FROM login_attempts WHERE at5 < $1`, now.Add(-lockoutWindow)},
		{`DELETE FROM login_networks WHERE began < $1`, now.Add(-lockoutWindow)},
		{`DELETE FROM login_accounts WHERE began < $1`, now.Add(-lockoutWindow)},
		{`DELETE FROM signing_keys WHERE expires_at < $1`, now},
	} {
		if _, err := q.ExecContext(ctx, old.query, db.Micros(old.before)); err != nil {
			return err
		}
	}
	return nil
}
