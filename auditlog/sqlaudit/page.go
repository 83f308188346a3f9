package sqlaudit

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/internal/leaf/auditstore"
)

// Query implements [auditlog.Store].
func (s *Store) Query(ctx context.Context, q auditlog.Query) (auditlog.Page, error) {
	var p auditlog.Page
	p.Items = []auditlog.Entry{}
	if !auditstore.Storable(q.TenantID) {
		return p, nil
	}

	err := s.snapshot(ctx, func(tx *sql.Tx) error { return s.page(ctx, tx, q, &p) })
	if err != nil {
		return auditlog.Page{}, fmt.Errorf("query audit log: %w", err)
	}

	return p, nil
}

// errFull ends a page whose entries have enough bytes.
var errFull = errors.New("the page is full")

func (s *Store) page(ctx context.Context, tx *sql.Tx, q auditlog.Query, p *auditlog.Page) error {
	void := q.Filter.Void()
	if void { // only the snapshot is requested
		q.Filter = auditlog.Filter{}
	}

	sp, err := readSpan(ctx, tx, q)
	p.Snapshot = auditstore.View(q.Snapshot, unsigned(sp.id))
	if err != nil || void {
		return err
	}

	total := max(sp.last-sp.first, 0)
	var users string
	if q.User != "" {
		if users, total, err = s.countUsers(ctx, tx, sp, q.User); err != nil {
			return err
		}
	}

	p.Total = unsigned(total)
	offset := int64(min(q.Offset, p.Total))
	limit := min(int64(q.Limit), total-offset, math.MaxInt32)
	if limit <= 0 {
		return nil
	}

	st := sp.page(offset)
	if q.User != "" {
		st = s.userPage(sp, users, total, offset, limit)
	}

	rows := make([]row, 0, min(limit, chunkSize))
	size := 0
	err = forEach(ctx, tx, st.text+" ORDER BY e.id DESC"+limitTo(limit), st.args, func(scan *sql.Rows) error {
		var r row
		err := r.scan(scan, q.TenantID)
		if size += len(r.Detail); err == nil && q.Bytes > 0 && size > q.Bytes && len(rows) > 0 {
			return errFull
		}

		rows = append(rows, r)
		return err
	})
	if errors.Is(err, errFull) {
		limit, err = int64(len(rows)), nil
	}

	if err != nil {
		return fmt.Errorf("read entries: %w", err)
	}

	damaged := &auditlog.DamagedError{TenantID: q.TenantID}
	for i := range limit {
		position := sp.last - offset - i
		if q.User == "" && sp.column == "" {
			damaged.ID = unsigned(position)
		}

		if i >= int64(len(rows)) || q.User == "" && rows[i].position(sp.column) != position {
			return damaged // an entry is missing
		}

		if rows[i].Hash == nil { // a name is missing
			damaged.ID = rows[i].ID
			return damaged
		}

		p.Items = append(p.Items, rows[i].Entry)
	}

	return nil
}

// statement is the beginning of a query. Its text contains no values.
type statement struct {
	text string
	args []any
}

// arg adds a parameter and returns its name.
func (s *statement) arg(v any) string {
	s.args = append(s.args, v)
	return "$" + strconv.Itoa(len(s.args))
}

// page returns the statement of the entries from an offset on, newest first. It does not mention
// lo: a lower bound misleads PostgreSQL.
func (sp span) page(offset int64) statement {
	const entries = "SELECT " + entryColumns + " FROM audit_entries e WHERE "
	position := sp.last - offset
	if sp.column == "" {
		return statement{entries + "e.tenant = $1 AND e.id <= $2", []any{sp.tenant, position}}
	}

	// From the next milestone at or above the position, at most fifteen entries are skipped.
	return statement{entries + strings.ReplaceAll(`e.$c = $1 AND e.$c_pos <= $2 AND e.id <= $3 AND e.id <= COALESCE((
		SELECT m.id FROM audit_entries m WHERE m.$c = $1 AND m.$c_pos % 16 = 0 AND m.$c_pos >= $2
			ORDER BY m.$c_pos LIMIT 1), $3)`, "$c", sp.column), []any{sp.key, position, sp.hi}}
}

// users returns a subquery of the keys of users whose name or id contains a text.
func (e engine) users(st *statement, tenant int64, text string) string {
	t, fold := st.arg(tenant), st.arg(auditstore.Fold(text))
	return "SELECT u.key FROM audit_keys u WHERE u.tenant = " + t + " AND u.kind = 4 AND (" +
		fmt.Sprintf(e.contains, "u.fold_name", fold) + " OR " + fmt.Sprintf(e.contains, "u.fold_id", fold) + ")"
}

// within returns the conditions of a span in the index of users.
func (sp span) within(st *statement) string {
	where := " AND e.id > " + st.arg(sp.lo) + " AND e.id <= " + st.arg(sp.hi)
	if sp.column != "" {
		where += " AND e." + sp.column + " + 0 = " + st.arg(sp.key) // not the index of the column
	}

	return where
}

// countUsers returns the keys of matching users, as a parameter of engine.set, and the total of
// their entries.
func (s *Store) countUsers(ctx context.Context, tx querier, sp span, user string) (string, int64, error) {
	var st statement
	st.text = "SELECT k.key, (SELECT COUNT(*) FROM audit_entries e WHERE e.user_key = k.key" + sp.within(&st) + ") FROM (" +
		s.engine.users(&st, sp.tenant, user) + ") k"
	keys := []int64{}
	var total int64
	err := forEach(ctx, tx, st.text, st.args, func(rows *sql.Rows) error {
		var key, count int64
		err := rows.Scan(&key, &count)
		if count > 0 {
			keys = append(keys, key)
			total += count
		}

		return err
	})
	if err != nil {
		return "", 0, fmt.Errorf("count entries of users: %w", err)
	}

	text, err := json.Marshal(keys)
	return string(text), total, err
}

// userPage returns the statement of entries of users. Either the log is read backwards until the
// page is full, or all entries of these users are sorted: the planner does not know their number.
func (s *Store) userPage(sp span, users string, total, offset, limit int64) statement {
	var st statement
	tenant := st.arg(sp.tenant)
	set := fmt.Sprintf(s.engine.set, st.arg(users))
	from := "audit_entries e WHERE e.tenant = " + tenant + " AND (e.user_key IN " + set + ") IS TRUE"
	if float64(total)*float64(total) < float64(offset+limit)*float64(sp.hi-sp.lo) {
		from = set + " k JOIN audit_entries e ON e.user_key = k.key"
	}

	st.text = "SELECT " + entryColumns + " FROM (SELECT e.id FROM " + from + sp.within(&st) + " ORDER BY e.id DESC" + limitTo(limit) +
		" OFFSET " + st.arg(offset) + ") p JOIN audit_entries e ON e.tenant = " + tenant + " AND e.id = p.id"
	return st
}

// limitTo returns a limit of n as text. With a parameter, PostgreSQL would plan the statement each
// time, and badly.
func limitTo(n int64) string { return " LIMIT " + strconv.FormatInt(n, 10) }

const entryColumns = `e.id, e.created_at, e.category, e.category_pos, e.action, e.action_pos, e.user_key,
	(SELECT n.name FROM audit_keys n WHERE n.key = e.category), (SELECT n.name FROM audit_keys n WHERE n.key = e.action),
	(SELECT n.name FROM audit_keys n WHERE n.key = e.user_key), (SELECT n.user_id FROM audit_keys n WHERE n.key = e.user_key),
	e.target_type, e.target_id, e.target_name, e.status, e.detail, e.remote_ip, e.user_agent, e.hash`

// scan scans entryColumns. An entry of a damaged log without one of its names has no hash, so that
// it fails its verification.
func (r *row) scan(rows *sql.Rows, tenantID string) error {
	var micros int64
	var names [4]sql.Null[string]
	err := rows.Scan(&r.ID, &micros, &r.key[0], &r.pos[0], &r.key[1], &r.pos[1], &r.key[2],
		&names[0], &names[1], &names[2], &names[3],
		&r.TargetType, &r.TargetID, &r.TargetName, &r.Status, (*[]byte)(&r.Detail), &r.RemoteIP, &r.UserAgent, &r.Hash)
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

// position returns the position of an entry within the log or a column.
func (r *row) position(column string) int64 {
	switch column {
	case "category":
		return r.pos[0]
	case "action":
		return r.pos[1]
	}

	return signed(r.ID)
}
