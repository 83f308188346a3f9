package external

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/hub/internal/store"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/session"
	"github.com/seed93082962/agenthost/hub/internal/user"
	"github.com/seed93082962/agenthost/internal/db"
)

// errNoFlow is returned for a login or a code that does not exist.
var errNoFlow = errors.New("no such login")

func insertFlow(ctx context.Context, q db.Querier, f flow) error {
	return db.Exec(ctx, q, "insert login", `INSERT INTO login_flows
			(state_hash, browser_hash, org, issuer, client_id, callback, nonce_hash, verifier_enc, return_to, expires_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
		f.stateHash, f.browserHash, f.org, f.issuer, f.clientID, f.callback, f.nonceHash, f.verifierEnc, f.returnTo, db.Micros(f.expiresAt))
}

// takeFlow deletes the login and returns it. One of several concurrent calls succeeds. The login of
// another browser remains.
func takeFlow(ctx context.Context, q db.Querier, state, browser []byte, now time.Time) (flow, error) {
	var f flow
	f.stateHash, f.browserHash = state, browser
	err := q.QueryRowContext(ctx, `DELETE FROM login_flows WHERE state_hash = $1 AND browser_hash = $2 AND expires_at > $3
		RETURNING org, issuer, client_id, callback, nonce_hash, verifier_enc, return_to`, state, browser, db.Micros(now)).
		Scan(&f.org, &f.issuer, &f.clientID, &f.callback, &f.nonceHash, &f.verifierEnc, &f.returnTo)
	return f, db.WrapOne("take login", err, errNoFlow)
}

func insertCode(ctx context.Context, q db.Querier, code, browser []byte, u user.External, expires time.Time) error {
	return db.Exec(ctx, q, "insert login code", `INSERT INTO login_codes
			(code_hash, browser_hash, tenant_id, issuer, subject, session_id, username, display_name, email, is_admin, admin_key, role, group_names, expires_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)`,
		code, browser, u.TenantID, u.Issuer, u.Subject, u.SessionID, storable(u.Username), storable(u.DisplayName), storable(u.Email), u.Admin,
		u.AdminKey, string(u.Role), db.JSON{V: &u.Groups, Zero: "[]"}, db.Micros(expires))
}

// storable returns a text of an identity provider in a form that both engines store.
func storable(s string) string { return api.Plain(strings.ToValidUTF8(s, "")) }

// takeCode deletes the code and returns its user. One of several concurrent calls succeeds.
func takeCode(ctx context.Context, q db.Querier, code, browser []byte, now time.Time) (user.External, error) {
	var u user.External
	err := q.QueryRowContext(ctx, `DELETE FROM login_codes WHERE code_hash = $1 AND browser_hash = $2 AND expires_at > $3
		RETURNING tenant_id, issuer, subject, session_id, username, display_name, email, is_admin, admin_key, role, group_names`, code, browser, db.Micros(now)).
		Scan(&u.TenantID, &u.Issuer, &u.Subject, &u.SessionID, &u.Username, &u.DisplayName, &u.Email, &u.Admin, &u.AdminKey, &u.Role, db.JSON{V: &u.Groups})
	return u, db.WrapOne("take login code", err, errCode)
}

// readCode returns the user of a code.
func readCode(ctx context.Context, q db.Querier, code, browser []byte, now time.Time) (session.Name, error) {
	var n session.Name
	err := q.QueryRowContext(ctx, `SELECT tenant_id, issuer, subject, username FROM login_codes WHERE code_hash = $1 AND browser_hash = $2 AND expires_at > $3`,
		code, browser, db.Micros(now)).Scan(&n.OrgID, &n.Issuer, &n.Subject, &n.Username)
	return n, db.WrapOne("read login code", err, errCode)
}

// deleteCodes deletes the codes of the users that a logout names.
func deleteCodes(ctx context.Context, q db.Querier, out session.ExternalLogout) error {
	return db.Exec(ctx, q, "delete login codes", `DELETE FROM login_codes WHERE tenant_id = $1 AND issuer = $2
		AND ($3 = '' OR subject = $3) AND ($4 = '' OR session_id = $4 OR $3 <> '' AND session_id = '')`, out.TenantID, out.Issuer, out.Subject, out.SessionID)
}

// deleteLogins deletes the logins and codes of an organization.
func deleteLogins(ctx context.Context, tx *store.Tx, org string) error {
	if err := db.Exec(ctx, tx, "delete logins", `DELETE FROM login_flows WHERE org = $1`, org); err != nil {
		return err
	}

	return db.Exec(ctx, tx, "delete login codes", `DELETE FROM login_codes WHERE tenant_id = $1`, org)
}

func logoutTokenUsed(ctx context.Context, q db.Querier, token []byte) (bool, error) {
	return db.Value[bool](ctx, q, "read logout token", `SELECT EXISTS (SELECT 1 FROM logout_tokens WHERE token_hash = $1)`, token)
}

func insertLogoutToken(ctx context.Context, q db.Querier, token []byte, expires time.Time) error {
	return db.Exec(ctx, q, "insert logout token",
		`INSERT INTO logout_tokens (token_hash, expires_at) VALUES ($1, $2) ON CONFLICT (token_hash) DO NOTHING`,
		token, db.Micros(expires))
}

// deleteExpired deletes what can no longer be used, of all organizations.
func deleteExpired(ctx context.Context, q db.Querier, now time.Time) error {
	for _, query := range []string{
		`DELETE FROM login_flows WHERE expires_at < $1`, `DELETE FROM login_codes WHERE expires_at < $1`, `DELETE FROM logout_tokens WHERE expires_at < $1`,
	} {
		if err := db.Exec(ctx, q, "delete expired logins", query, db.Micros(now)); err != nil {
			return err
		}
	}

	return nil
}
