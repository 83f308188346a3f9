package sqlaudit

import (
	"context"
	"fmt"
)

// mixed is the entries of an action by some users. Nothing counts these beforehand: the smaller of the two is searched
// for the other.
type mixed struct {
	span
	action *sequence
	users  *actors
	count  int64
}

func (a *actors) doing(ctx context.Context, action *sequence) (*mixed, error) {
	m := &mixed{span: a.span, action: action, users: a}
	query := "SELECT COUNT(*) FROM audit_entries e WHERE " + m.where(action.total() <= a.count)
	if err := a.store.read.row(ctx, query, m.args(m.lo), &m.count); err != nil {
		return nil, fmt.Errorf("count action of users: %w", err)
	}
	return m, nil
}

// where searches the action for the users, or the users for the action. IS TRUE, or adding nothing, keeps an engine from
// using the index of the other one.
func (m *mixed) where(byAction bool) string {
	users := fmt.Sprintf(m.store.sql.set, "$2")
	if byAction {
		return "e.action = $1 AND (e.actor IN " + users + ") IS TRUE AND e.id > $3 AND e.id <= $4"
	}
	return "e.action + 0 = $1 AND e.actor IN " + users + " AND e.id > $3 AND e.id <= $4"
}

func (m *mixed) args(after int64) []any {
	return []any{m.action.key, set(m.users.keys), max(after, m.lo), m.hi}
}

func (m *mixed) total() int64 { return m.count }

// page reads the action as far as the page is, in its order, or all that the users did.
func (m *mixed) page(ctx context.Context, offset, n int64) ([]row, error) {
	far := float64(offset+n) / float64(m.count) * float64(m.action.total())
	query, args := "SELECT e.id FROM audit_entries e WHERE "+m.where(far <= float64(m.users.count))+" ORDER BY e.id DESC", m.args(m.lo)
	if offset == 0 {
		query += limit(n)
	} else {
		query, args = query+" LIMIT $5 OFFSET $6", append(args, n, offset)
	}
	ids, err := m.find(ctx, query, args)
	if err != nil {
		return nil, fmt.Errorf("find action of users: %w", err)
	}
	return m.byID(ctx, ids[:min(n, int64(len(ids)))])
}

func (m *mixed) chunk(ctx context.Context, after, n int64) ([]row, int64, error) {
	where := m.where(m.action.total() <= m.users.count)
	rows, err := m.entries(ctx, where+" ORDER BY e.id"+limit(n), n, m.args(after)...)
	if int64(len(rows)) < n {
		return rows, m.hi, err
	}
	return rows, signed(rows[n-1].ID), nil
}
