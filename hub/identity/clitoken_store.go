package identity

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/seed93082962/agenthost/hub/store"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/db"
)

// cliColumns are the columns that scanToken reads, in its order.
const cliColumns = `id, tenant_id, user_id, name, prefix, created_at, expires_at, last_used_at, last_used_ip`

func scanToken(row db.Scanner) (cliToken, error) {
	var (
		t             cliToken
		created       int64
		expires, used sql.NullInt64
		ip            sql.NullString
	)
	err := row.Scan(&t.ID, &t.TenantID, &t.UserID, &t.Name, &t.Prefix, &created, &expires, &used, &ip)
	t.CreatedAt = db.Time(created)
	t.ExpiresAt = db.NullTime(expires)
	t.LastUsedAt = db.NullTime(used)
	t.LastUsedIP = ip.String
	return t, err
}

// tokensOf returns a page of the tokens of a user that were not revoked, the newest first, and the
// number of all.
func tokensOf(ctx context.Context, q db.Querier, tenantID, userID string, page api.Page) ([]cliToken, int, error) {
	var total int
	err := q.QueryRowContext(ctx, `SELECT COUNT(*) FROM cli_tokens WHERE tenant_id = $1 AND user_id = $2 AND revoked_at IS NULL`, tenantID, userID).Scan(&total)
	if err != nil {
		return nil, 0, db.Wrap("count tokens", err)
	}
	all, err := db.Collect(ctx, q, "list tokens", scanToken, `SELECT `+cliColumns+` FROM cli_tokens
		WHERE tenant_id = $1 AND user_id = $2 AND revoked_at IS NULL ORDER BY created_at DESC, id DESC LIMIT $3 OFFSET $4`, tenantID, userID, page.Size, page.Offset())
	return all, total, err
}

// checkTokens fails with api.Conflict if the user has maxTokensPerUser valid tokens, and deletes
// the oldest revoked ones beyond as many. The tenant is locked.
func checkTokens(ctx context.Context, tx *store.Tx, t cliToken) error {
	var valid int
	err := tx.QueryRowContext(ctx, `SELECT COUNT(*) FROM cli_tokens
		WHERE tenant_id = $1 AND user_id = $2 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $3)`,
		t.TenantID, t.UserID, db.Micros(t.CreatedAt)).Scan(&valid)
	if err != nil {
		return db.Wrap("count tokens", err)
	}
	if valid >= maxTokensPerUser {
		return api.Conflict.New(fmt.Sprintf("You have %d CLI tokens: revoke some of them first.", maxTokensPerUser))
	}
	_, err = db.Affected(ctx, tx, "delete tokens", `DELETE FROM cli_tokens WHERE tenant_id = $1 AND user_id = $2 AND revoked_at IS NOT NULL AND id NOT IN
		(SELECT id FROM cli_tokens WHERE tenant_id = $1 AND user_id = $2 AND revoked_at IS NOT NULL ORDER BY revoked_at DESC, id DESC LIMIT $3)`,
		t.TenantID, t.UserID, maxTokensPerUser)
	return err
}

// tokenExpiry returns when the CLI token of the caller expires, or the zero time for never and for
// a session.
func tokenExpiry(ctx context.Context, tx *store.Tx, caller api.Caller) (time.Time, error) {
	var expires sql.NullInt64
	err := tx.QueryRowContext(ctx, `SELECT expires_at FROM cli_tokens WHERE tenant_id = $1 AND id = $2`, caller.TenantID, caller.TokenID).Scan(&expires)
	if errors.Is(err, sql.ErrNoRows) {
		return time.Time{}, nil
	}
	return db.NullTime(expires), db.Wrap("read token", err)
}

func insertToken(ctx context.Context, tx *store.Tx, t cliToken, hash []byte) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO cli_tokens (id, tenant_id, user_id, name, token_hash, prefix, created_at, expires_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
		t.ID, t.TenantID, t.UserID, t.Name, hash, t.Prefix, db.Micros(t.CreatedAt), db.NullMicros(t.ExpiresAt))
	return db.Wrap("insert token", err)
}

// revokeToken revokes a token of the user. It fails with api.NotFound if there is none that is not
// revoked.
func revokeToken(ctx context.Context, tx *store.Tx, tenantID, userID, id string, now time.Time) (cliToken, error) {
	t, err := scanToken(tx.QueryRowContext(ctx, `UPDATE cli_tokens SET revoked_at = $1
		WHERE tenant_id = $4 AND id = $2 AND user_id = $3 AND revoked_at IS NULL RETURNING `+cliColumns, db.Micros(now), id, userID, tenantID))
	if errors.Is(err, sql.ErrNoRows) {
		return cliToken{}, api.NotFound.New("There is no such token, or it was revoked.")
	}
	return t, db.Wrap("revoke token", err)
}

// readCLIToken reads a CLI token and its member into st.
func (s *Service) readCLIToken(ctx context.Context, hash []byte, st *state) error {
	var (
		id                         string
		revoked, expires, lastUsed sql.NullInt64
	)
	m, err := scanMember(s.store.Read().QueryRowContext(ctx, `SELECT `+memberColumns+`, t.id, t.revoked_at, t.expires_at, t.last_used_at
		FROM cli_tokens t JOIN members m ON m.id = t.user_id AND m.tenant_id = t.tenant_id WHERE t.token_hash = $1`, hash), &id, &revoked, &expires, &lastUsed)
	if errors.Is(err, sql.ErrNoRows) {
		return api.Unauthenticated
	}
	if err != nil {
		return db.Wrap("read CLI token", err)
	}
	st.fill(s, m, revoked, lastUsed.Int64)
	st.expires = db.NullTime(expires)
	st.caller.Kind, st.caller.TokenID = api.CLI, id
	return nil
}

// revokeTokens ends all CLI tokens of a user, and returns how many were valid. Call invalidateUser
// after the commit.
func (s *Service) revokeTokens(ctx context.Context, tx *store.Tx, m member) (live int, err error) {
	all, err := db.Collect(ctx, tx, "revoke tokens", func(row db.Scanner) (alive bool, err error) {
		err = row.Scan(&alive)
		return alive, err
	}, `UPDATE cli_tokens SET revoked_at = $1 WHERE tenant_id = $3 AND user_id = $2 AND revoked_at IS NULL
		RETURNING expires_at IS NULL OR expires_at > $1`, db.Micros(s.store.Now()), m.ID, m.TenantID)
	for _, alive := range all {
		if alive {
			live++
		}
	}
	return live, err
}
