package identity

import (
	"context"
	"database/sql"
	"errors"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/db"
)

// inviteColumns is what scanInvite reads, in its order.
const inviteColumns = `id, tenant_id, role, note, created_by, created_by_name, created_at, expires_at, used_at, used_by, revoked_at`

func scanInvite(row scanner) (invite, error) {
	var (
		i                invite
		created, expires int64
		used, revoked    sql.NullInt64
		usedBy           sql.NullString
	)
	err := row.Scan(&i.ID, &i.TenantID, &i.Role, &i.Note, &i.CreatedBy, &i.CreatedByName, &created, &expires, &used, &usedBy, &revoked)
	i.CreatedAt, i.ExpiresAt = db.Time(created), db.Time(expires)
	i.UsedAt, i.UsedBy, i.RevokedAt = timeOf(used), usedBy.String, timeOf(revoked)
	return i, err
}

// invitesOf lists the invites of a tenant, the newest first, and counts them all.
func invitesOf(ctx context.Context, q querier, tenantID string, page api.Page) ([]invite, int, error) {
	var total int
	if err := q.QueryRowContext(ctx, `SELECT COUNT(*) FROM invites WHERE tenant_id = $1`, tenantID).Scan(&total); err != nil {
		return nil, 0, fault("count invites", err)
	}
	all, err := collect(ctx, q, "list invites", scanInvite, `SELECT `+inviteColumns+` FROM invites WHERE tenant_id = $1
		ORDER BY created_at DESC, id DESC LIMIT $2 OFFSET $3`, tenantID, page.Size, page.Offset())
	return all, total, err
}

func insertInvite(ctx context.Context, tx *sql.Tx, i invite, hash []byte) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO invites
			(id, tenant_id, token_hash, role, note, created_by, created_by_name, created_at, expires_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
		i.ID, i.TenantID, hash, string(i.Role), i.Note, i.CreatedBy, i.CreatedByName, db.Micros(i.CreatedAt), db.Micros(i.ExpiresAt))
	return fault("insert invite", err)
}

// pendingInvite finds the invite of a token, or answers api.InviteInvalid.
func (s *Service) pendingInvite(ctx context.Context, token string) (invite, error) {
	return oneInvite(s.db.Read().QueryRowContext(ctx, `SELECT `+inviteColumns+` FROM invites
		WHERE token_hash = $1 AND used_at IS NULL AND revoked_at IS NULL AND expires_at > $2`, hashToken(token), db.Micros(s.now())))
}

// useInvite gives the invite of a token to the user of that name. Of several at once one gets it, the others
// api.InviteInvalid.
func (s *Service) useInvite(ctx context.Context, tx *sql.Tx, token, username string) (invite, error) {
	return oneInvite(tx.QueryRowContext(ctx, `UPDATE invites SET used_at = $1, used_by = $2
		WHERE token_hash = $3 AND used_at IS NULL AND revoked_at IS NULL AND expires_at > $1 RETURNING `+inviteColumns,
		db.Micros(s.now()), username, hashToken(token)))
}

func oneInvite(row scanner) (invite, error) {
	i, err := scanInvite(row)
	if errors.Is(err, sql.ErrNoRows) {
		return invite{}, api.InviteInvalid
	}
	return i, fault("read invite", err)
}

// endInvite revokes an invite and tells whether it did: not when it was used or revoked before.
func (s *Service) endInvite(ctx context.Context, tx *sql.Tx, tenantID, id string) (i invite, ended bool, err error) {
	i, err = scanInvite(tx.QueryRowContext(ctx, `UPDATE invites SET revoked_at = $1
		WHERE tenant_id = $2 AND id = $3 AND used_at IS NULL AND revoked_at IS NULL RETURNING `+inviteColumns, db.Micros(s.now()), tenantID, id))
	if ended = err == nil; ended {
		return i, true, nil
	}
	if errors.Is(err, sql.ErrNoRows) {
		i, err = scanInvite(tx.QueryRowContext(ctx, `SELECT `+inviteColumns+` FROM invites WHERE tenant_id = $1 AND id = $2`, tenantID, id))
	}
	if errors.Is(err, sql.ErrNoRows) {
		return invite{}, false, api.NotFound.New("There is no such invitation.")
	}
	return i, false, fault("revoke invite", err)
}

// endInvitesOf revokes what m has given and nobody has used yet.
func (s *Service) endInvitesOf(ctx context.Context, tx *sql.Tx, m member) ([]invite, error) {
	return collect(ctx, tx, "revoke invites", scanInvite, `UPDATE invites SET revoked_at = $1
		WHERE tenant_id = $2 AND created_by = $3 AND used_at IS NULL AND revoked_at IS NULL AND expires_at > $1 RETURNING `+inviteColumns,
		db.Micros(s.now()), m.TenantID, m.ID)
}
