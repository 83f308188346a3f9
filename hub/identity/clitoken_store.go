package identity

import (
	"context"
	"database/sql"
	"errors"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/db"
)

// cliColumns is what scanToken reads, in its order.
const cliColumns = `id, tenant_id, user_id, name, prefix, created_at, expires_at, last_used_at, last_used_ip`

func scanToken(row scanner) (cliToken, error) {
	var (
		t             cliToken
		created       int64
		expires, used sql.NullInt64
		ip            sql.NullString
	)
	err := row.Scan(&t.ID, &t.TenantID, &t.UserID, &t.Name, &t.Prefix, &created, &expires, &used, &ip)
	t.CreatedAt, t.ExpiresAt, t.LastUsedAt, t.LastUsedIP = db.Time(created), timeOf(expires), timeOf(used), ip.String
	return t, err
}

// tokensOf lists the tokens of a user that were not revoked, the newest first, and counts them all.
func tokensOf(ctx context.Context, q querier, userID string, page api.Page) ([]cliToken, int, error) {
	var total int
	err := q.QueryRowContext(ctx, `SELECT COUNT(*) FROM cli_tokens WHERE user_id = $1 AND revoked_at IS NULL`, userID).Scan(&total)
	if err != nil {
		return nil, 0, fault("count tokens", err)
	}
	all, err := collect(ctx, q, "list tokens", scanToken, `SELECT `+cliColumns+` FROM cli_tokens
		WHERE user_id = $1 AND revoked_at IS NULL ORDER BY created_at DESC, id DESC LIMIT $2 OFFSET $3`, userID, page.Size, page.Offset())
	return all, total, err
}

func insertToken(ctx context.Context, tx *sql.Tx, t cliToken, hash []byte) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO cli_tokens (id, tenant_id, user_id, name, token_hash, prefix, created_at, expires_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
		t.ID, t.TenantID, t.UserID, t.Name, hash, t.Prefix, db.Micros(t.CreatedAt), microsOf(t.ExpiresAt))
	return fault("insert token", err)
}

// endToken revokes a token of the user, or answers api.NotFound.
func (s *Service) endToken(ctx context.Context, tx *sql.Tx, userID, id string) (cliToken, error) {
	t, err := scanToken(tx.QueryRowContext(ctx, `UPDATE cli_tokens SET revoked_at = $1
		WHERE id = $2 AND user_id = $3 AND revoked_at IS NULL RETURNING `+cliColumns, db.Micros(s.now()), id, userID))
	if errors.Is(err, sql.ErrNoRows) {
		return cliToken{}, api.NotFound.New(tokenNotFound)
	}
	return t, fault("revoke token", err)
}
