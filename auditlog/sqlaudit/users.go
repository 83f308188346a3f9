package sqlaudit

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/auditlog/driver"
)

// actor is a user in one category, with its entries in a span.
type actor struct {
	key, last int64 // last is the id of its newest entry
	count     int64
}

// userMatches returns a page of the entries of users whose name or id contains q.User. Its cost
// depends on the number of these users, and for a deep page on the number of their entries. The
// statements must be of one snapshot.
func (s *Store) userMatches(ctx context.Context, db querier, q auditlog.Query, offset int64, limit int) (m matches, err error) {
	if m.span, err = readSpan(ctx, db, spanStatement(q)); err != nil || (q.Category != "" || q.Action != "") && m.key == 0 {
		return m, err
	}
	actors, err := s.actors(ctx, db, q.Filter, m.span)
	if err != nil {
		return m, err
	}
	for _, a := range actors {
		m.total += a.count
	}
	set := fmt.Sprintf(s.engine.set, "$2")
	var (
		from string
		args []any
	)
	if q.Action == "" {
		from, args = s.newestOf(actors, m.span, offset+int64(limit))
	} else {
		// Nothing counts an action by users. The smaller of the two is searched for the other; the
		// planner must not choose.
		from = " FROM audit_entries e WHERE e.action + 0 = $1 AND e.actor IN " + set + " AND e.id > $3 AND e.id <= $4"
		if m.last-m.first <= m.total {
			from = " FROM audit_entries e WHERE e.action = $1 AND (e.actor IN " + set + ") IS TRUE AND e.id > $3 AND e.id <= $4"
		}
		args = []any{m.key, jsonSet(actorKeys(actors)), m.lo, m.hi}
		if err := scanRow(ctx, db, "SELECT COUNT(*)"+from, args, &m.total); err != nil {
			return m, fmt.Errorf("count entries of users: %w", err)
		}
	}
	if offset >= m.total || limit == 0 {
		return m, nil
	}
	st := statement{args: args}
	page := "SELECT " + entryColumns + " FROM (SELECT e.id" + from + " ORDER BY e.id DESC" + limitTo(limit) + " OFFSET " + st.arg(offset) +
		") p JOIN audit_entries e ON e.tenant = " + st.arg(m.tenant) + " AND e.id = p.id ORDER BY e.id DESC"
	err = forEach(ctx, db, page, st.args, func(rows *sql.Rows) error {
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

// newestOf returns the FROM clause of the newest n entries of the actors, each of which has n of
// them at most. Only the n actors whose last entries are the newest matter.
func (s *Store) newestOf(actors []actor, sp span, n int64) (from string, args []any) {
	slices.SortFunc(actors, func(a, b actor) int { return cmp.Compare(b.last, a.last) })
	actors = actors[:min(n, int64(len(actors)))]
	return " FROM " + fmt.Sprintf(s.engine.set, "$1") + ` k JOIN audit_entries e ON e.actor = k.key AND e.id > $2 AND e.id <= $3
		AND e.id >= COALESCE((SELECT b.id FROM audit_entries b WHERE b.actor = k.key AND b.id <= $3
			ORDER BY b.id DESC LIMIT 1 OFFSET $4), 0)`, []any{jsonSet(actorKeys(actors)), sp.lo, sp.hi, max(n-1, 0)}
}

// actors returns the actors of matching users that have entries in the span.
func (s *Store) actors(ctx context.Context, db querier, f auditlog.Filter, sp span) (actors []actor, err error) {
	args := []any{sp.tenant, sp.hi, sp.lo, driver.Fold(f.User)}
	within := ""
	if category, _, _ := strings.Cut(cmp.Or(f.Category, f.Action), "."); category != "" {
		within = " AND a.category = (SELECT c.key FROM audit_keys c WHERE c.tenant = $1 AND c.digest = $5)"
		args = append(args, name{kind: kindCategory, text: category}.digest())
	}
	// A subquery has one column, so it returns id and position as one text. SQLite has no LATERAL.
	const newest = ", COALESCE((SELECT e.id || ',' || e.actor_pos FROM audit_entries e WHERE e.actor = a.key AND e.id <= %s ORDER BY e.id DESC LIMIT 1), '')"
	query := "SELECT a.key, a.floor" + fmt.Sprintf(newest, "$2") + fmt.Sprintf(newest, "$3") + ` FROM audit_keys u JOIN audit_keys a
		ON a.owner = u.key AND a.kind = 3` + within + " WHERE u.tenant = $1 AND u.kind = 4 AND (" +
		fmt.Sprintf(s.engine.contains, "u.fold_name", "$4") + " OR " + fmt.Sprintf(s.engine.contains, "u.fold_id", "$4") + ")"
	err = forEach(ctx, db, query, args, func(rows *sql.Rows) error {
		var a actor
		var floor int64
		var newest, before string
		if err := rows.Scan(&a.key, &floor, &newest, &before); err != nil {
			return err
		}
		_, first := idAndPosition(before, floor)
		var last int64
		if a.last, last = idAndPosition(newest, floor); last > first {
			a.count = last - first
			actors = append(actors, a)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("count entries of users: %w", err)
	}
	return actors, nil
}

// idAndPosition parses "<id>,<position>". Without an entry, the position is the floor.
func idAndPosition(text string, floor int64) (id, pos int64) {
	left, right, ok := strings.Cut(text, ",")
	if !ok {
		return 0, floor
	}
	id, _ = strconv.ParseInt(left, 10, 64) // two integers
	pos, _ = strconv.ParseInt(right, 10, 64)
	return id, pos
}

func actorKeys(actors []actor) []int64 {
	keys := make([]int64, len(actors))
	for i, a := range actors {
		keys[i] = a.key
	}
	return keys
}
