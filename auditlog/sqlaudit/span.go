package sqlaudit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/seed93082962/agenthost/auditlog"
)

// span is the part of a log that a query is about: the ids above lo and up to hi. These are also
// the positions above first and up to last: of the log, or of a category or an action.
type span struct {
	id, tenant, lo, hi int64  // id is that of the newest entry of the log
	column             string // "category", "action" or ""
	key, first, last   int64
}

// readSpan finds the span of a query. Without an entry that matches, it is empty.
func readSpan(ctx context.Context, db querier, q auditlog.Query) (span, error) {
	view := int64(math.MaxInt64)
	if q.Snapshot != nil {
		view = signed(*q.Snapshot)
	}

	var sp span
	err := scanRow(ctx, db, "SELECT tenant, id, floor_id FROM audit_heads WHERE name = $1", []any{q.TenantID}, &sp.tenant, &sp.id, &sp.lo)
	if err != nil {
		return sp, fmt.Errorf("read head of audit log: %w", err)
	}

	sp.lo = max(sp.lo, signed(q.AfterID))
	sp.hi = min(sp.id, view)
	if !q.From.IsZero() || !q.To.IsZero() {
		if err := sp.restrict(ctx, db, q.Filter); err != nil {
			return sp, fmt.Errorf("find time in audit log: %w", err)
		}
	}

	sp.first = sp.lo
	sp.last = sp.hi
	key := name{kind: kindAction, text: q.Action}
	switch {
	case q.Action != "":
		sp.column = "action"
	case q.Category != "":
		sp.column = "category"
		key = name{kind: kindCategory, text: q.Category}
	default:
		return sp, nil
	}

	sp.first = 0
	sp.last = 0
	// The positions are those of the last entries at or below an id.
	query := strings.ReplaceAll(`SELECT k.key,
		COALESCE((SELECT e.$c_pos FROM audit_entries e WHERE e.$c = k.key AND e.id <= $3 ORDER BY e.id DESC LIMIT 1), k.floor),
		COALESCE((SELECT e.$c_pos FROM audit_entries e WHERE e.$c = k.key AND e.id <= $4 ORDER BY e.id DESC LIMIT 1), k.floor)
		FROM audit_keys k WHERE k.tenant = $1 AND k.digest = $2`, "$c", sp.column)
	err = scanRow(ctx, db, query, []any{sp.tenant, key.digest(), sp.lo, sp.hi}, &sp.key, &sp.first, &sp.last)
	if err != nil {
		return sp, fmt.Errorf("find %s in audit log: %w", sp.column, err)
	}

	return sp, nil
}

// restrict restricts the span to the times of a filter.
func (sp *span) restrict(ctx context.Context, db querier, f auditlog.Filter) error {
	from, to := f.Micros()
	if from > math.MinInt64 {
		before, err := sp.lastUntil(ctx, db, from-1)
		if err != nil {
			return err
		}

		sp.lo = max(sp.lo, before)
	}

	last, err := sp.lastUntil(ctx, db, to)
	sp.hi = min(sp.hi, last)
	return err
}

// lastUntil returns the id of the last entry at or before a time, or 0. It is one of the sixteen
// from the last milestone on.
func (sp *span) lastUntil(ctx context.Context, db querier, micros int64) (int64, error) {
	var mark, id int64
	err := scanRow(ctx, db, `SELECT e.id FROM audit_entries e WHERE e.tenant = $1 AND e.id % 16 = 0 AND e.created_at <= $2
		ORDER BY e.created_at DESC, e.id DESC LIMIT 1`, []any{sp.tenant, micros}, &mark)
	mark = max(mark, sp.lo)
	return id, errors.Join(err, scanRow(ctx, db, `SELECT e.id FROM audit_entries e WHERE e.tenant = $1 AND e.created_at <= $2
		AND e.id >= $3 AND e.id <= $4 ORDER BY e.id DESC LIMIT 1`, []any{sp.tenant, micros, mark, mark + 16}, &id))
}

// querier is a database or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// execer is a transaction that writes.
type execer interface {
	querier
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// forEach calls scan for each row of a query.
func forEach(ctx context.Context, db querier, query string, args []any, scan func(row *sql.Rows) error) (err error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}

	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}

	return rows.Err()
}

// scanRow scans the only row of a query into dest. Without a row, dest is unchanged.
func scanRow(ctx context.Context, db querier, query string, args []any, dest ...any) error {
	return forEach(ctx, db, query, args, func(row *sql.Rows) error { return row.Scan(dest...) })
}

// snapshot runs read in a transaction in which all statements see the same state of the database.
func (s *Store) snapshot(ctx context.Context, read func(*sql.Tx) error) error {
	tx, err := s.read.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		return fmt.Errorf("begin: %w", cause(ctx, err))
	}

	defer func() { _ = tx.Rollback() }()
	return cause(ctx, read(tx))
}
