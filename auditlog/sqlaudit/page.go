package sqlaudit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/auditlog/driver"
)

// Query implements [auditlog.Store]. A page is one statement. With a user in the filter it takes
// several, in one snapshot.
func (s *Store) Query(ctx context.Context, q auditlog.Query) (p auditlog.Page, err error) {
	if !driver.Storable(q.TenantID) {
		return auditlog.Page{Items: []auditlog.Entry{}}, nil
	}
	damaged := q.User != ""
	if !damaged {
		p, err = s.page(ctx, &s.read, q)
		_, damaged = errors.AsType[*auditlog.DamagedError](err)
	}
	if damaged { // or entries were pruned between two statements
		err = s.read.snapshot(ctx, func(tx querier) (err error) {
			p, err = s.page(ctx, tx, q)
			return err
		})
	}
	if err != nil {
		return auditlog.Page{}, fmt.Errorf("query audit log: %w", err)
	}
	return p, nil
}

func (s *Store) page(ctx context.Context, db querier, q auditlog.Query) (auditlog.Page, error) {
	limit, offset := max(min(q.Limit, math.MaxInt32), 0), q.Offset
	if offset >= math.MaxInt64 {
		limit, offset = 0, 0
	}
	void := driver.Void(q.Filter)
	if void { // only the snapshot is requested
		q.Filter, limit = auditlog.Filter{}, 0
	}
	var found matches
	var err error
	if q.User != "" {
		found, err = s.userMatches(ctx, db, q, signed(offset), limit)
	} else {
		found, err = s.matches(ctx, db, q, signed(offset), limit)
	}
	if err != nil {
		return auditlog.Page{}, err
	}
	p := auditlog.Page{Items: []auditlog.Entry{}, Snapshot: driver.View(q.Snapshot, unsigned(found.id))}
	if void {
		return p, nil
	}
	p.Total = unsigned(found.total)
	want := int(min(uint64(limit), p.Total-min(offset, p.Total)))
	if len(found.rows) < want || found.gap {
		return p, &auditlog.DamagedError{TenantID: q.TenantID, ID: found.missing}
	}
	rows := found.rows[:want]
	for i := range rows {
		if rows[i].Hash == nil { // a name is missing
			return p, &auditlog.DamagedError{TenantID: q.TenantID, ID: rows[i].ID}
		}
		p.Items = append(p.Items, rows[i].Entry)
	}
	return p, nil
}

// matches is the entries that match a filter.
type matches struct {
	span
	total   int64
	rows    []row  // the page, newest first
	gap     bool   // the page has a gap
	missing uint64 // the missing entry, if it is known
}

// span is the part of a log that a query is about: the ids above lo and up to hi. If the filter has
// a category or an action, these are the positions above first and up to last of its key.
type span struct {
	id, tenant, lo, hi int64 // id is that of the newest entry of the log
	key, first, last   int64
}

// matches returns a page of entries that have positions without a gap: all of a log, or those of a
// category or an action.
func (s *Store) matches(ctx context.Context, db querier, q auditlog.Query, offset int64, limit int) (m matches, err error) {
	st := spanStatement(q)
	if limit > 0 {
		page := *st
		page.selectPage(offset)
		err := forEach(ctx, db, page.text()+limitTo(limit), page.args, func(rows *sql.Rows) error {
			if len(m.rows) == limit {
				return nil
			}
			var r row
			var pos int64
			if err := r.scan(rows, q.TenantID, &m.id, &m.first, &m.last, &pos); err != nil {
				return err
			}
			want := m.last - offset - int64(len(m.rows))
			if pos != want && want > m.first && !m.gap {
				m.gap = true
				if st.column == "" {
					m.missing = unsigned(want)
				}
			}
			m.rows = append(m.rows, r)
			return nil
		})
		if err != nil {
			return m, fmt.Errorf("read entries: %w", err)
		}
	}
	if len(m.rows) == 0 {
		if m.span, err = readSpan(ctx, db, st); err != nil {
			return m, err
		}
	}
	m.total = max(m.last-m.first, 0)
	if n := int64(len(m.rows)); st.column == "" && !m.gap {
		m.missing = unsigned(m.last - offset - n)
	}
	return m, nil
}

func readSpan(ctx context.Context, db querier, st *statement) (sp span, err error) {
	err = scanRow(ctx, db, st.text()+st.selectSpan(), st.args, &sp.id, &sp.tenant, &sp.lo, &sp.hi, &sp.key, &sp.first, &sp.last)
	if err != nil {
		return sp, fmt.Errorf("read head of audit log: %w", err)
	}
	return sp, nil
}

// statement builds a query. Its texts contain no values, so that there are few of them.
type statement struct {
	parts  []string
	args   []any
	column string // of the filter's category or action; "" without them
}

func (s *statement) add(parts ...string) { s.parts = append(slices.Clip(s.parts), parts...) }

func (s *statement) text() string { return strings.Join(s.parts, "") }

// arg adds a parameter and returns its name.
func (s *statement) arg(v any) string {
	s.args = append(slices.Clip(s.args), v)
	return "$" + strconv.Itoa(len(s.args))
}

// spanStatement begins with h, a row with the columns of span, and k, a row with the key and its
// positions.
func spanStatement(q auditlog.Query) *statement {
	s := &statement{}
	key := name{kind: kindCategory, text: q.Category}
	switch {
	case q.Action != "":
		s.column = "action"
		key = name{kind: kindAction, text: q.Action}
	case q.Category != "":
		s.column = "category"
	}
	view := int64(math.MaxInt64)
	if q.Snapshot != nil {
		view = signed(*q.Snapshot)
	}
	tenant, hi := s.arg(q.TenantID), s.arg(view)
	row := func(more string) string {
		return "SELECT tenant, id, floor_id AS lo, CASE WHEN id < " + hi + " THEN id ELSE " + hi + " END AS hi" + more +
			" FROM audit_heads WHERE name = " + tenant
	}
	timed := !q.From.IsZero() || !q.To.IsZero()
	if timed {
		from, to := driver.Micros(q.Filter)
		bounds := ", CAST(" + s.arg(max(from, math.MinInt64+1)-1) + " AS BIGINT) AS before, CAST(" + s.arg(to) + " AS BIGINT) AS until"
		s.add("WITH log AS MATERIALIZED (", row(bounds), "), ", timeRange)
	} else {
		s.add("WITH h AS MATERIALIZED (", row(""), ")")
	}
	if s.column != "" {
		first := "k.floor"
		if timed {
			first = position(s.column, "h.lo")
		}
		s.add(", k AS MATERIALIZED (SELECT k.key, h.id, h.hi, ", first, " AS first, ", position(s.column, "h.hi"),
			" AS last FROM h JOIN audit_keys k ON k.tenant = h.tenant AND k.digest = ", s.arg(key.digest()), ")")
	}
	return s
}

// position is the position of the last entry of the key k at or below an id.
func position(column, id string) string {
	return strings.NewReplacer("$c", column, "$id", id).Replace(
		"COALESCE((SELECT e.$c_pos FROM audit_entries e WHERE e.$c = k.key AND e.id <= $id ORDER BY e.id DESC LIMIT 1), k.floor)")
}

// timeRange converts the times of log, a row, to ids: those of the last entries at or before them.
// Such an entry is one of the sixteen from the last milestone on. Times are columns because SQLite,
// once it has statistics, would compile the statement again for each value of a parameter.
const timeRange = `marks AS MATERIALIZED (SELECT log.*,
		COALESCE((SELECT e.id FROM audit_entries e WHERE e.tenant = log.tenant AND e.id % 16 = 0 AND e.created_at <= log.before
			ORDER BY e.created_at DESC, e.id DESC LIMIT 1), log.lo) AS mark_lo,
		COALESCE((SELECT e.id FROM audit_entries e WHERE e.tenant = log.tenant AND e.id % 16 = 0 AND e.created_at <= log.until
			ORDER BY e.created_at DESC, e.id DESC LIMIT 1), log.lo) AS mark_hi
		FROM log), ids AS MATERIALIZED (SELECT marks.*,
		COALESCE((SELECT e.id FROM audit_entries e WHERE e.tenant = marks.tenant AND e.created_at <= marks.before
			AND e.id >= mark_lo AND e.id <= mark_lo + 16 ORDER BY e.id DESC LIMIT 1), marks.lo) AS first,
		COALESCE((SELECT e.id FROM audit_entries e WHERE e.tenant = marks.tenant AND e.created_at <= marks.until
			AND e.id >= mark_hi AND e.id <= mark_hi + 16 ORDER BY e.id DESC LIMIT 1), marks.lo) AS last
		FROM marks), h AS MATERIALIZED (
		SELECT tenant, id, CASE WHEN first > lo THEN first ELSE lo END AS lo, CASE WHEN last < hi THEN last ELSE hi END AS hi FROM ids)`

// selectSpan returns the end of a statement that reads the span.
func (s *statement) selectSpan() string {
	if s.column != "" {
		return " SELECT h.id, h.tenant, h.lo, h.hi, COALESCE(k.key, 0), COALESCE(k.first, 0), COALESCE(k.last, 0) FROM h LEFT JOIN k ON TRUE"
	}
	return " SELECT h.id, h.tenant, h.lo, h.hi, 0, h.lo, h.hi FROM h"
}

// selectPage adds the end of a statement that reads entries, newest first, from an offset on. It
// does not mention lo: a lower bound misleads PostgreSQL. The total decides how many of the rows
// belong to the page.
func (s *statement) selectPage(offset int64) {
	if s.column == "" {
		s.add(" SELECT (SELECT id FROM h), (SELECT lo FROM h), (SELECT hi FROM h), e.id, ", entryColumns, " FROM audit_entries e",
			" WHERE e.tenant = (SELECT tenant FROM h) AND e.id <= (SELECT hi FROM h) - ", s.arg(offset), " ORDER BY e.id DESC")
		return
	}
	// From the next milestone at or above the position, at most fifteen entries are skipped.
	s.add(strings.NewReplacer("$c", s.column, "$pos", "(SELECT last FROM k) - "+s.arg(offset)).Replace(
		" SELECT (SELECT id FROM k), (SELECT first FROM k), (SELECT last FROM k), e.$c_pos, " + entryColumns + ` FROM audit_entries e
			WHERE e.$c = (SELECT key FROM k) AND e.$c_pos <= $pos AND e.id <= (SELECT hi FROM k)
			AND e.id <= COALESCE((SELECT m.id FROM audit_entries m WHERE m.$c = (SELECT key FROM k) AND m.$c_pos % 16 = 0
				AND m.$c_pos >= $pos ORDER BY m.$c_pos LIMIT 1), (SELECT hi FROM k)) ORDER BY e.id DESC`))
}

// limitTo returns a limit of at least n as text. With a parameter, PostgreSQL would plan the
// statement each time, and badly. There are few limits, so that there are few statements.
func limitTo(n int) string {
	most := 20
	for most < n {
		most *= 5
	}
	return " LIMIT " + strconv.Itoa(most)
}

const entryColumns = `e.id, e.created_at, e.category, e.category_pos, e.action, e.action_pos, e.user_key,
	(SELECT n.name FROM audit_keys n WHERE n.key = e.category), (SELECT n.name FROM audit_keys n WHERE n.key = e.action),
	(SELECT n.name FROM audit_keys n WHERE n.key = e.user_key), (SELECT n.user_id FROM audit_keys n WHERE n.key = e.user_key),
	e.target_type, e.target_id, e.target_name, e.status, e.detail, e.remote_ip, e.user_agent, e.hash`

// scan scans entryColumns after some other columns. An entry of a damaged log without one of its
// names has no hash, so that it fails its verification.
func (r *row) scan(rows *sql.Rows, tenantID string, before ...any) error {
	var micros int64
	var names [4]sql.Null[string]
	err := rows.Scan(append(before, &r.ID, &micros, &r.key[0], &r.pos[0], &r.key[1], &r.pos[1], &r.key[2],
		&names[0], &names[1], &names[2], &names[3],
		&r.TargetType, &r.TargetID, &r.TargetName, &r.Status, (*[]byte)(&r.Detail), &r.RemoteIP, &r.UserAgent, &r.Hash)...)
	r.TenantID = tenantID
	r.CreatedAt = time.UnixMicro(micros).UTC()
	for i, text := range []*string{&r.Category, &r.Action, &r.UserName, &r.UserID} {
		*text = names[i].V
		if !names[i].Valid {
			r.Hash = nil
		}
	}
	return err
}
