package sqlaudit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/auditlog"
)

// A page of all entries, of a category or of an action is one statement: head, total and items are of one moment then.
// Its parts are subqueries with a single row, which both engines run once.
const (
	quickHead = `WITH h AS MATERIALIZED (SELECT tenant, id, floor_id, CASE WHEN id < $2 THEN id ELSE $2 END AS hi
		FROM audit_heads WHERE name = $1)`
	quickKey = `, k AS MATERIALIZED (SELECT k.key, k.floor, h.id, h.hi, COALESCE((SELECT e.$c_pos FROM audit_entries e
			WHERE e.$c = k.key AND e.id <= h.hi ORDER BY e.id DESC LIMIT 1), k.floor) AS last
		FROM h JOIN audit_keys k ON k.tenant = h.tenant AND k.digest = $3)`
	quickColumns = ` e.id, e.created_at, e.category, e.action, e.actor, e.target_type, e.target_id, e.target_name, e.status,
		e.detail, e.remote_ip, e.user_agent, e.hash FROM audit_entries e WHERE `

	quickAll = quickHead + ` SELECT (SELECT id FROM h), (SELECT floor_id FROM h), (SELECT hi FROM h),` + quickColumns +
		`e.tenant = (SELECT tenant FROM h) AND e.id <= (SELECT hi FROM h) - $3 ORDER BY e.id DESC`
	quickFirst = quickHead + quickKey + ` SELECT (SELECT id FROM k), (SELECT floor FROM k), (SELECT last FROM k),` + quickColumns +
		`e.$c = (SELECT key FROM k) AND e.id <= (SELECT hi FROM k) ORDER BY e.id DESC`
	// From the next milestone at or above the position it is at most fifteen entries down to it.
	quickDeep = quickHead + quickKey + ` SELECT (SELECT id FROM k), (SELECT floor FROM k), (SELECT last FROM k),` + quickColumns +
		`e.$c = (SELECT key FROM k) AND e.$c_pos <= (SELECT last FROM k) - $4 AND e.id <= COALESCE((
			SELECT m.id FROM audit_entries m WHERE m.$c = (SELECT key FROM k) AND m.$c_pos % 16 = 0
				AND m.$c_pos >= (SELECT last FROM k) - $4 AND m.id <= (SELECT hi FROM k) ORDER BY m.$c_pos LIMIT 1
		), (SELECT hi FROM k)) ORDER BY e.id DESC`
)

// quick answers what it can in one statement. It may not find that there is nothing.
func (s *Store) quick(ctx context.Context, q auditlog.Query) (p auditlog.Page, ok bool, err error) {
	if q.Limit <= 0 || q.Offset >= math.MaxInt64 || q.User != "" || !q.From.IsZero() || !q.To.IsZero() || q.Void() {
		return p, false, nil
	}
	view, offset := int64(math.MaxInt64), signed(q.Offset)
	if q.Snapshot != nil {
		view = signed(*q.Snapshot)
	}
	n := min(int64(q.Limit), math.MaxInt32)
	query, args := quickAll, []any{q.TenantID, view, offset}
	if q.Category != "" || q.Action != "" {
		column, name := keyOf(q.Filter)
		query, args = quickFirst, []any{q.TenantID, view, name.digest()}
		if offset > 0 {
			query, args = quickDeep, append(args, offset)
		}
		query = strings.ReplaceAll(query, "$c", column)
	}
	var ends [3]int64 // last id; positions of the last entries before the view and in it
	rows, err := s.quickRows(ctx, query+limit(n), n, args, &ends)
	if err != nil || len(rows) == 0 {
		return p, false, err
	}
	p.Snapshot, p.Total = unsigned(min(view, ends[0])), unsigned(ends[2]-ends[1])
	if uint64(len(rows)) != min(unsigned(n), p.Total-min(q.Offset, p.Total)) {
		return p, false, nil
	}
	p.Items, err = s.items(ctx, q.TenantID, rows)
	return p, err == nil, err
}

// keyOf is what an action is counted by, or a category where no action is asked for; the two together are void unless they fit.
func keyOf(f auditlog.Filter) (column string, n keyName) {
	if f.Action != "" {
		return "action", keyName{kind: kindAction, name: f.Action}
	}
	return "category", keyName{kind: kindCategory, name: f.Category}
}

func (s *Store) quickRows(ctx context.Context, query string, n int64, args []any, ends *[3]int64) (all []row, err error) {
	rows, err := s.read.query(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("read entries: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	all = make([]row, 0, min(n, 100))
	for int64(len(all)) < n && rows.Next() {
		all = append(all, row{})
		r := &all[len(all)-1]
		var at int64
		err := rows.Scan(&ends[0], &ends[1], &ends[2], &r.ID, &at, &r.key[0], &r.key[1], &r.key[2], &r.TargetType, &r.TargetID,
			&r.TargetName, &r.Status, (*[]byte)(&r.Detail), &r.RemoteIP, &r.UserAgent, &r.Hash)
		if err != nil {
			return nil, fmt.Errorf("read entries: %w", err)
		}
		r.CreatedAt = time.UnixMicro(at).UTC()
	}
	return all, rows.Err()
}
