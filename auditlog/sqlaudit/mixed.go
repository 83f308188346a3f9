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
	where  string
	count  int64
}

func (a *actors) doing(ctx context.Context, action *sequence) (*mixed, error) {
	m := &mixed{span: a.span, action: action, users: a}
	// IS TRUE, or adding nothing, keeps an engine from using the index of the larger one.
	m.where = "e.action = $1 AND (e.actor IN " + fmt.Sprintf(a.store.sql.set, "$2") + ") IS TRUE"
	if a.count < action.total() {
		m.where = "e.action + 0 = $1 AND e.actor IN " + fmt.Sprintf(a.store.sql.set, "$2")
	}
	m.where += " AND e.id > $3 AND e.id <= $4"
	err := a.store.read.row(ctx, "SELECT COUNT(*) FROM audit_entries e WHERE "+m.where, m.args(m.lo), &m.count)
	if err != nil {
		return nil, fmt.Errorf("count action of users: %w", err)
	}
	return m, nil
}

func (m *mixed) args(after int64) []any {
	return []any{m.action.key, set(m.users.keys), max(after, m.lo), m.hi}
}

func (m *mixed) total() int64 { return m.count }

func (m *mixed) page(ctx context.Context, offset, n int64) ([]row, error) {
	ids, err := m.find(ctx, "SELECT e.id FROM audit_entries e WHERE "+m.where+" ORDER BY e.id DESC LIMIT $5 OFFSET $6",
		append(m.args(m.lo), n, offset))
	if err != nil {
		return nil, fmt.Errorf("find action of users: %w", err)
	}
	return m.byID(ctx, ids)
}

func (m *mixed) chunk(ctx context.Context, after, n int64) ([]row, int64, error) {
	rows, err := m.entries(ctx, m.where+" ORDER BY e.id"+limit(n), n, m.args(after)...)
	if int64(len(rows)) < n {
		return rows, m.hi, err
	}
	return rows, signed(rows[n-1].ID), nil
}
