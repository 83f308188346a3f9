package identity

import (
	"context"
	"errors"

	"github.com/seed93082962/agenthost/hub/store"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/db"
	"github.com/seed93082962/agenthost/rbac"
)

// change runs do in a transaction that excludes all other changes of users, invites and CLI tokens
// of the tenant. It commits only if the caller still has the permission. A cached role may be two
// seconds old, and a request may take longer: the current role decides.
//
// The zero group has every role. Only api.LastAdmin takes precedence: if two admins demote each
// other concurrently, the second receives that error.
func (s *Service) change(ctx context.Context, caller api.Caller, group rbac.Group, do func(*store.Tx) error) error {
	ctx = db.WithCheck(ctx, nil) // do may end the access of the caller, which is checked before
	return s.store.Change(ctx, store.Change{Caller: caller, Lock: lockTenant}, func(tx *store.Tx) error {
		refused, err := s.refusal(ctx, tx, caller, group)
		if err != nil {
			return err
		}
		err = do(tx)
		if refused != nil && !errors.Is(err, api.LastAdmin) {
			return refused
		}
		return err
	})
}

// refusal returns why the caller may not call a route of the group, or nil. It locks the row of the
// caller: a new password, which ends sessions and tokens, takes effect before or after the whole
// change.
func (s *Service) refusal(ctx context.Context, tx *store.Tx, c api.Caller, group rbac.Group) (refused, err error) {
	_, err = tx.ExecContext(ctx, `UPDATE members SET updated_at = updated_at WHERE tenant_id = $1 AND id = $2`, c.TenantID, c.UserID)
	if err != nil {
		return nil, db.Wrap("lock member", err)
	}
	all, err := readAccess(ctx, tx, s.store.Now(), credentialOf(c))
	return all[credentialOf(c)].check(c, group), err
}

// membersOf returns a page of the members of a tenant, the oldest first, and the number of all.
func membersOf(ctx context.Context, q db.Querier, tenantID string, page api.Page) ([]member, int, error) {
	var total int
	if err := q.QueryRowContext(ctx, `SELECT COUNT(*) FROM members WHERE tenant_id = $1`, tenantID).Scan(&total); err != nil {
		return nil, 0, db.Wrap("count members", err)
	}
	all, err := db.Collect(ctx, q, "list members", func(row db.Scanner) (member, error) { return scanMember(row) },
		`SELECT `+memberColumns+` FROM members m WHERE m.tenant_id = $1 ORDER BY m.created_at, m.id LIMIT $2 OFFSET $3`,
		tenantID, page.Size, page.Offset())
	return all, total, err
}

func updateMember(ctx context.Context, tx *store.Tx, m member) error {
	_, err := tx.ExecContext(ctx, `UPDATE members SET role = $1, status = $2, display_name = $3, updated_at = $4
		WHERE tenant_id = $5 AND id = $6`, string(m.Role), m.Status, m.DisplayName, db.Micros(m.UpdatedAt), m.TenantID, m.ID)
	return db.Wrap("update member", err)
}

// deleteMember deletes the member and, by the schema, the sessions and tokens.
func deleteMember(ctx context.Context, tx *store.Tx, m member) error {
	_, err := tx.ExecContext(ctx, `DELETE FROM members WHERE tenant_id = $1 AND id = $2`, m.TenantID, m.ID)
	return db.Wrap("delete member", err)
}
