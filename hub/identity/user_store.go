package identity

import (
	"context"
	"database/sql"
	"errors"
	"net/http"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/db"
	"github.com/seed93082962/agenthost/rbac"
)

// change runs do in a transaction between which no other change of users, invites or CLI tokens of the tenant can come, and
// commits only if the caller may still make it. What a replica knows of a role can be two seconds old, and a request may
// have been on its way for longer: for changes the role counts that the caller has when they are made.
//
// Only the rule of the last admin comes before that: of two who demote each other at once, the second is to hear of it.
func (s *Service) change(r *http.Request, group rbac.Group, do func(context.Context, *sql.Tx) error) error {
	ctx, caller := r.Context(), api.CallerOf(r)
	return s.db.Tx(ctx, func(tx *sql.Tx) error {
		if err := lockTenant(ctx, tx, caller.TenantID); err != nil {
			return err
		}
		var refused error
		role, err := roleNow(ctx, tx, caller)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			refused = api.TokenRevoked
		case err != nil:
			return fault("read role", err)
		default:
			refused = group.Check(api.Caller{RoleNow: role})
		}
		err = do(ctx, tx)
		if refused != nil && !errors.Is(err, api.LastAdmin) {
			return refused
		}
		return err
	})
}

// roleNow is the role of a caller who is still active, and whose session or token still lives. It keeps the caller's row
// locked: a new password, which ends sessions and tokens, comes before or after the whole change.
func roleNow(ctx context.Context, tx *sql.Tx, c api.Caller) (role rbac.Role, err error) {
	err = tx.QueryRowContext(ctx, `UPDATE members SET updated_at = updated_at WHERE tenant_id = $1 AND id = $2 AND status = $3 RETURNING role`,
		c.TenantID, c.UserID, statusActive).Scan(&role)
	if err != nil {
		return "", err
	}
	var id string
	err = tx.QueryRowContext(ctx, `SELECT id FROM sessions WHERE id = $1 AND user_id = $3 AND revoked_at IS NULL
			UNION ALL SELECT id FROM cli_tokens WHERE id = $2 AND user_id = $3 AND revoked_at IS NULL`,
		c.SessionID, c.TokenID, c.UserID).Scan(&id)
	return role, err
}

// membersOf lists the members of a tenant, the oldest first, and counts them all.
func membersOf(ctx context.Context, q querier, tenantID string, page api.Page) ([]member, int, error) {
	var total int
	if err := q.QueryRowContext(ctx, `SELECT COUNT(*) FROM members WHERE tenant_id = $1`, tenantID).Scan(&total); err != nil {
		return nil, 0, fault("count members", err)
	}
	all, err := collect(ctx, q, "list members", func(row scanner) (member, error) { return scanMember(row) },
		`SELECT `+memberColumns+` FROM members m WHERE m.tenant_id = $1 ORDER BY m.created_at, m.id LIMIT $2 OFFSET $3`,
		tenantID, page.Size, page.Offset())
	return all, total, err
}

// collect reads all rows of a query.
func collect[T any](ctx context.Context, q querier, what string, scan func(scanner) (T, error), query string, args ...any) ([]T, error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, fault(what, err)
	}
	defer func() { _ = rows.Close() }() // rows.Err tells
	var all []T
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, fault(what, err)
		}
		all = append(all, v)
	}
	return all, fault(what, rows.Err())
}

func updateMember(ctx context.Context, tx *sql.Tx, m member) error {
	_, err := tx.ExecContext(ctx, `UPDATE members SET role = $1, status = $2, display_name = $3, updated_at = $4
		WHERE tenant_id = $5 AND id = $6`, string(m.Role), m.Status, m.DisplayName, db.Micros(m.UpdatedAt), m.TenantID, m.ID)
	return fault("update member", err)
}

// deleteMember deletes the member and, by the schema, the sessions and tokens.
func deleteMember(ctx context.Context, tx *sql.Tx, m member) error {
	_, err := tx.ExecContext(ctx, `DELETE FROM members WHERE tenant_id = $1 AND id = $2`, m.TenantID, m.ID)
	return fault("delete member", err)
}
