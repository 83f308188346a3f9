package user

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/internal/token"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
)

// inviteColumns are the columns that scanInvite reads, in its order.
const inviteColumns = `id, tenant_id, role, note, created_by, created_by_name, created_at, expires_at, used_at, used_by, revoked_at`

func scanInvite(row db.Scanner) (Invite, error) {
	var i Invite
	var usedBy sql.NullString
	err := row.Scan(&i.ID, &i.TenantID, &i.Role, &i.Note, &i.CreatedByID, &i.CreatedBy, &i.CreatedAt, &i.ExpiresAt, &i.UsedAt, &usedBy, &i.RevokedAt)
	i.UsedBy = usedBy.String
	return i, err
}

// invitesOf returns a page of the invites of a tenant, the newest first, and the number of all.
func invitesOf(ctx context.Context, q db.Querier, tenantID string, page api.Page) ([]Invite, int, error) {
	part := db.Page{Order: `created_at DESC, id DESC`, Limit: page.Size, Offset: page.Offset()}
	return db.List(ctx, q, "list invites", scanInvite, part, `SELECT `+inviteColumns+` FROM invites WHERE tenant_id = $1`, tenantID)
}

// checkOpenInvites fails with wire.Conflict if the tenant has maxInvites open invites. The tenant
// is locked.
func checkOpenInvites(ctx context.Context, tx *store.Tx, tenantID string) error {
	open, err := db.Value[int](ctx, tx, "count open invites", `SELECT COUNT(*) FROM invites
		WHERE tenant_id = $1 AND used_at IS NULL AND revoked_at IS NULL AND expires_at > $2`, tenantID, db.Micros(tx.Now))
	if err != nil {
		return err
	}

	if open >= maxInvites {
		return wire.Conflict.New(fmt.Sprintf("There are %d open invitations: revoke some of them first.", maxInvites))
	}

	return nil
}

func insertInvite(ctx context.Context, tx *store.Tx, i Invite, hash []byte) error {
	return db.Exec(ctx, tx, "insert invite", `INSERT INTO invites
			(id, tenant_id, token_hash, role, note, created_by, created_by_name, created_at, expires_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
		i.ID, i.TenantID, hash, string(i.Role), i.Note, i.CreatedByID, i.CreatedBy, i.CreatedAt, i.ExpiresAt)
}

// pendingInvite returns the pending invite of a token, or code.InviteInvalid.
func pendingInvite(ctx context.Context, q db.Querier, raw string, now time.Time) (Invite, error) {
	return oneInvite(q.QueryRowContext(ctx, `SELECT `+inviteColumns+` FROM invites
		WHERE token_hash = $1 AND used_at IS NULL AND revoked_at IS NULL AND expires_at > $2`, token.Hash(raw), db.Micros(now)))
}

// useInvite marks the pending invite of a token as used by the user. One of several concurrent
// calls succeeds, the others return code.InviteInvalid.
func useInvite(ctx context.Context, tx *store.Tx, raw, username string) (Invite, error) {
	return oneInvite(tx.QueryRowContext(ctx, `UPDATE invites SET used_at = $1, used_by = $2
		WHERE token_hash = $3 AND used_at IS NULL AND revoked_at IS NULL AND expires_at > $1 RETURNING `+inviteColumns,
		db.Micros(tx.Now), username, token.Hash(raw)))
}

func oneInvite(row db.Scanner) (Invite, error) {
	i, err := scanInvite(row)
	return i, db.WrapOne("read invite", err, code.InviteInvalid)
}

// revokeInvite revokes a pending invite. It returns the invite, and whether it was pending.
func revokeInvite(ctx context.Context, tx *store.Tx, tenantID, id string) (Invite, bool, error) {
	i, err := scanInvite(tx.QueryRowContext(ctx, `UPDATE invites SET revoked_at = $1
		WHERE tenant_id = $2 AND id = $3 AND used_at IS NULL AND revoked_at IS NULL RETURNING `+inviteColumns, db.Micros(tx.Now), tenantID, id))
	var ended bool
	if ended = err == nil; ended {
		return i, true, nil
	}

	if errors.Is(err, sql.ErrNoRows) {
		i, err = scanInvite(tx.QueryRowContext(ctx, `SELECT `+inviteColumns+` FROM invites WHERE tenant_id = $1 AND id = $2`, tenantID, id))
	}

	return i, false, db.WrapOne("revoke invite", err, wire.NotFound.New("There is no such invitation."))
}

// revokeInvitesOf revokes the open invites that a user created.
func revokeInvitesOf(ctx context.Context, tx *store.Tx, u User) ([]Invite, error) {
	return db.Collect(ctx, tx, "revoke invites", scanInvite, `UPDATE invites SET revoked_at = $1
		WHERE tenant_id = $2 AND created_by = $3 AND used_at IS NULL AND revoked_at IS NULL AND expires_at > $1 RETURNING `+inviteColumns,
		db.Micros(tx.Now), u.TenantID, u.ID)
}
