package identity

import (
	"context"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/hub/store"

	"github.com/seed93082962/agenthost/hub/db"
)

// updateExternalLogin records a login and returns the member, or errNoMember. It changes nothing of
// a disabled one. The row is locked until the transaction ends.
func updateExternalLogin(ctx context.Context, tx *store.Tx, u ExternalUser, now time.Time) (member, error) {
	return oneMember(tx.QueryRowContext(ctx, `UPDATE members SET
			last_login_at = CASE WHEN status = $1 THEN $2 ELSE last_login_at END,
			email = CASE WHEN status = $1 THEN $3 ELSE email END
		WHERE tenant_id = $4 AND issuer = $5 AND subject = $6 RETURNING `+strings.ReplaceAll(memberColumns, "m.", ""), // SQLite permits no alias there
		statusActive, db.Micros(now), externalEmail(u.Email), u.TenantID, u.Issuer, u.Subject))
}

func memberBySubject(ctx context.Context, q db.Querier, u ExternalUser) (member, error) {
	return oneMember(q.QueryRowContext(ctx, `SELECT `+memberColumns+` FROM members m WHERE m.tenant_id = $1 AND m.issuer = $2 AND m.subject = $3`,
		u.TenantID, u.Issuer, u.Subject))
}

// insertTenant creates the organization if it does not exist.
func insertTenant(ctx context.Context, tx *store.Tx, id string, now time.Time) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO tenants (id, created_at) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING`, id, db.Micros(now))
	return db.Wrap("insert tenant", err)
}

// useBootstrap reports whether the key, which is the folded username or has a slash, makes its user
// an admin. It does so once.
func useBootstrap(ctx context.Context, tx *store.Tx, tenantID, key string, now time.Time) (bool, error) {
	n, err := db.Affected(ctx, tx, "use bootstrap admin", `INSERT INTO bootstrap_admins (tenant_id, username_fold, used_at)
		VALUES ($1, $2, $3) ON CONFLICT (tenant_id, username_fold) DO NOTHING`, tenantID, key, db.Micros(now))
	return n > 0, err
}

// endProviderSessions ends the sessions of a logout, and returns how many live ones each user had.
func endProviderSessions(ctx context.Context, tx *store.Tx, out ExternalLogout, now time.Time) (map[string]int, error) {
	type session struct {
		user string
		live bool
	}
	all, err := db.Collect(ctx, tx, "end sessions", func(row db.Scanner) (one session, err error) {
		err = row.Scan(&one.user, &one.live)
		return one, err
	}, `UPDATE sessions SET revoked_at = $1, revoked_why = $2 WHERE tenant_id = $3 AND revoked_at IS NULL
			AND ($4 = '' OR provider_session = $4 OR $6 <> '' AND provider_session IS NULL)
			AND user_id IN (SELECT id FROM members WHERE tenant_id = $3 AND issuer = $5 AND ($6 = '' OR subject = $6))
		RETURNING user_id, idle_until > $1 AND expires_at > $1`,
		db.Micros(now), endedByProvider, out.TenantID, out.SessionID, out.Issuer, out.Subject)
	ended := map[string]int{}
	for _, one := range all {
		ended[one.user] += 0
		if one.live {
			ended[one.user]++
		}
	}
	return ended, err
}
