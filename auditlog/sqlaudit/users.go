package sqlaudit

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/auditlog/driver"
)

// users returns a subquery of the keys of users whose name or id contains a text. The arguments
// name its parameters: the tenant and the folded text.
func (e engine) users(tenant, text string) string {
	return "SELECT u.key FROM audit_keys u WHERE u.tenant = " + tenant + " AND u.kind = 4 AND (" +
		fmt.Sprintf(e.contains, "u.fold_name", text) + " OR " + fmt.Sprintf(e.contains, "u.fold_id", text) + ")"
}

// userMatches returns a page of the entries of users whose name or id contains q.User. Its cost
// depends on the number of their entries. The statements must be of one snapshot.
func (s *Store) userMatches(ctx context.Context, db querier, q auditlog.Query, offset int64, limit int) (m matches, err error) {
	st := spanStatement(q)
	if m.span, err = readSpan(ctx, db, st); err != nil || st.column != "" && m.key == 0 {
		return m, err
	}
	span := " AND e.id > $1 AND e.id <= $2"
	args := []any{m.lo, m.hi}
	if st.column != "" {
		span += " AND e." + st.column + " + 0 = $3" // not the index of the column
		args = append(args, m.key)
	}
	users, err := s.countUsers(ctx, db, q, &m, span, args)
	if err != nil || offset >= m.total || limit == 0 {
		return m, err
	}
	page := statement{args: args}
	tenant := page.arg(m.tenant)
	set := fmt.Sprintf(s.engine.set, page.arg(users))
	// Either the log is read backwards until the page is full, or all entries of the users are
	// sorted. The planner does not know their number.
	from := "audit_entries e WHERE e.tenant = " + tenant + " AND (e.user_key IN " + set + ") IS TRUE"
	if float64(m.total)*float64(m.total) < float64(offset+int64(limit))*float64(m.hi-m.lo) {
		from = set + " k JOIN audit_entries e ON e.user_key = k.key"
	}
	text := "SELECT " + entryColumns + " FROM (SELECT e.id FROM " + from + span + " ORDER BY e.id DESC" + limitTo(limit) +
		" OFFSET " + page.arg(offset) + ") p JOIN audit_entries e ON e.tenant = " + tenant + " AND e.id = p.id ORDER BY e.id DESC"
	err = forEach(ctx, db, text, page.args, func(rows *sql.Rows) error {
		var r row
		err := r.scan(rows, q.TenantID)
		if len(m.rows) < limit {
			m.rows = append(m.rows, r)
		}
		return err
	})
	if err != nil {
		return m, fmt.Errorf("read entries of users: %w", err)
	}
	return m, nil
}

// countUsers sets the total of m. It returns the keys of the matching users that have entries in
// the span, as a parameter of engine.set.
func (s *Store) countUsers(ctx context.Context, db querier, q auditlog.Query, m *matches, span string, args []any) (string, error) {
	st := statement{args: args}
	users := s.engine.users(st.arg(m.tenant), st.arg(driver.Fold(q.User)))
	text := "SELECT k.key, (SELECT COUNT(*) FROM audit_entries e WHERE e.user_key = k.key" + span + ") FROM (" + users + ") k"
	var keys []int64
	err := forEach(ctx, db, text, st.args, func(rows *sql.Rows) error {
		var key, count int64
		err := rows.Scan(&key, &count)
		if count > 0 {
			keys = append(keys, key)
			m.total += count
		}
		return err
	})
	if err != nil {
		return "", fmt.Errorf("count entries of users: %w", err)
	}
	set, err := json.Marshal(keys)
	return string(set), err
}
