package clitoken

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/internal/user"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
)

// columns are the columns that scan reads, in its order.
const columns = `id, tenant_id, user_id, name, prefix, created_at, expires_at, last_used_at, last_used_ip`

func scan(row db.Scanner) (Token, error) {
	var ip sql.NullString
	var t Token
	err := row.Scan(&t.ID, &t.TenantID, &t.UserID, &t.Name, &t.Prefix, &t.CreatedAt, &t.ExpiresAt, &t.LastUsedAt, &ip)
	if ip.String != "" {
		t.LastUsedIP = &ip.String
	}

	return t, err
}

// tokensOf returns a page of the tokens of a user that were not revoked, the newest first, and the
// number of all.
func tokensOf(ctx context.Context, q db.Querier, tenantID, userID string, page api.Page) ([]Token, int, error) {
	part := db.Page{Order: `created_at DESC, id DESC`, Limit: page.Size, Offset: page.Offset()}
	return db.List(ctx, q, "list tokens", scan, part,
		`SELECT `+columns+` FROM cli_tokens WHERE tenant_id = $1 AND user_id = $2 AND revoked_at IS NULL`, tenantID, userID)
}

// checkTokens fails with wire.Conflict if the user has maxValid valid tokens, and deletes the
// oldest revoked ones beyond as many. The tenant is locked.
func checkTokens(ctx context.Context, tx *store.Tx, t Token) error {
	valid, err := db.Value[int](ctx, tx, "count tokens", `SELECT COUNT(*) FROM cli_tokens
		WHERE tenant_id = $1 AND user_id = $2 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $3)`,
		t.TenantID, t.UserID, db.Micros(tx.Now))
	if err != nil {
		return err
	}

	if valid >= maxValid {
		return wire.Conflict.New(fmt.Sprintf("You have %d CLI tokens: revoke some of them first.", maxValid))
	}

	return db.Exec(ctx, tx, "delete tokens",
		`DELETE FROM cli_tokens WHERE tenant_id = $1 AND user_id = $2 AND revoked_at IS NOT NULL AND id NOT IN
		(SELECT id FROM cli_tokens WHERE tenant_id = $1 AND user_id = $2 AND revoked_at IS NOT NULL ORDER BY revoked_at DESC, id DESC LIMIT $3)`,
		t.TenantID, t.UserID, maxValid)
}

// expiryOf returns when the CLI token of the caller expires, or the zero time for never and for a
// session.
func expiryOf(ctx context.Context, tx *store.Tx, caller api.Caller) (wire.Time, error) {
	var expires wire.Time
	err := tx.QueryRowContext(ctx, `SELECT expires_at FROM cli_tokens WHERE tenant_id = $1 AND id = $2`, caller.TenantID, caller.TokenID).
		Scan(&expires)
	return expires, db.WrapOne("read token", err, nil)
}

func insertToken(ctx context.Context, tx *store.Tx, t Token, hash []byte) error {
	return db.Exec(ctx, tx, "insert token",
		`INSERT INTO cli_tokens (id, tenant_id, user_id, name, token_hash, prefix, created_at, expires_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
		t.ID, t.TenantID, t.UserID, t.Name, hash, t.Prefix, t.CreatedAt, t.ExpiresAt)
}

// revokeToken revokes a token of the user. It fails with wire.NotFound if there is none that is not
// revoked.
func revokeToken(ctx context.Context, tx *store.Tx, tenantID, userID, id string) (Token, error) {
	t, err := scan(tx.QueryRowContext(ctx, `UPDATE cli_tokens SET revoked_at = $1
		WHERE tenant_id = $4 AND id = $2 AND user_id = $3 AND revoked_at IS NULL RETURNING `+columns, db.Micros(tx.Now), id, userID, tenantID))
	return t, db.WrapOne("revoke token", err, wire.NotFound.New("There is no such token, or it was revoked."))
}

// State is what authentication needs of a token.
type State struct {
	ID        string
	User      user.User
	Revoked   bool
	ExpiresAt wire.Time // the zero time means never
	LastUsed  int64     // microseconds; 0 means never
}

// Find returns the state of a token by its hash, or wire.Unauthenticated.
func Find(ctx context.Context, q db.Querier, hash []byte) (State, error) {
	var revoked, used sql.NullInt64
	var s State
	var err error
	s.User, err = user.Scan(q.QueryRowContext(ctx, `SELECT `+user.Columns+`, t.id, t.revoked_at, t.expires_at, t.last_used_at
		FROM cli_tokens t JOIN members m ON m.id = t.user_id AND m.tenant_id = t.tenant_id WHERE t.token_hash = $1`, hash),
		&s.ID, &revoked, &s.ExpiresAt, &used)
	s.Revoked = revoked.Valid
	s.LastUsed = used.Int64
	return s, db.WrapOne("read CLI token", err, wire.Unauthenticated)
}

// RecordUse records the use of a token, unless one was recorded after a time, in microseconds.
func RecordUse(ctx context.Context, q db.Querier, id, remoteIP string, at, after int64) error {
	return db.Exec(ctx, q, "record use of token", `UPDATE cli_tokens SET last_used_at = $1, last_used_ip = $2
		WHERE id = $3 AND (last_used_at IS NULL OR last_used_at <= $4)`, at, remoteIP, id, after)
}

// deleteTokens deletes the tokens of all tenants that ended before a time.
func deleteTokens(ctx context.Context, q db.Querier, before time.Time) error {
	return db.Exec(ctx, q, "delete tokens", `DELETE FROM cli_tokens WHERE expires_at < $1 OR revoked_at < $1`, db.Micros(before))
}
