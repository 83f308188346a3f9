package sqlaudit

import (
	"context"
	"fmt"
	"strings"

	"github.com/seed93082962/agenthost/auditlog"
)

// sequence is the entries of a span that share a category, an action or an actor.
type sequence struct {
	span
	column      string // "category", "action" or "actor"; with _pos the position in it
	key         int64
	first, last int64 // positions: of the last entry at or below lo, and at or below hi
}

// ends selects, for keys k, key and the positions at $1 and at $2.
func ends(column string) string {
	const rank = `COALESCE((SELECT e.%[1]s_pos FROM audit_entries e
		WHERE e.%[1]s = k.key AND e.id <= %[2]s ORDER BY e.id DESC LIMIT 1), k.floor)`
	return "SELECT k.key, " + fmt.Sprintf(rank, column, "$1") + ", " + fmt.Sprintf(rank, column, "$2") + " FROM audit_keys k WHERE "
}

// sequence is that of an action or a category.
func (s span) sequence(ctx context.Context, f auditlog.Filter) (*sequence, error) {
	column, n := keyOf(f)
	q := &sequence{span: s, column: column}
	err := s.store.read.row(ctx, ends(q.column)+"k.tenant = $3 AND k.digest = $4",
		[]any{s.lo, s.hi, s.tenant, n.digest()}, &q.key, &q.first, &q.last)
	if err != nil {
		return nil, fmt.Errorf("count %s: %w", q.column, err)
	}
	return q, nil
}

func (q *sequence) total() int64 { return q.last - q.first }

func (q *sequence) page(ctx context.Context, offset, n int64) ([]row, error) {
	if offset == 0 {
		return q.entries(ctx, q.text("e.$c = $1 AND e.id <= $2 ORDER BY e.id DESC")+limit(n), n, q.key, q.hi)
	}
	// From the next milestone at or above the position it is at most fifteen entries down to it.
	return q.entries(ctx, q.text(`e.$c = $1 AND e.id <= COALESCE((SELECT m.id FROM audit_entries m
			WHERE m.$c = $1 AND m.$c_pos % 16 = 0 AND m.$c_pos >= $2 AND m.id <= $3 ORDER BY m.$c_pos LIMIT 1), $3)
		AND e.$c_pos <= $2 ORDER BY e.id DESC`)+limit(n), n, q.key, q.last-offset, q.hi)
}

func (q *sequence) chunk(ctx context.Context, after, n int64) ([]row, int64, error) {
	rows, err := q.entries(ctx, q.text("e.$c = $1 AND e.id > $2 AND e.id <= $3 ORDER BY e.id")+limit(n), n,
		q.key, max(after, q.lo), q.hi)
	if int64(len(rows)) < n {
		return rows, q.hi, err
	}
	return rows, signed(rows[n-1].ID), nil
}

func (q *sequence) text(s string) string { return strings.ReplaceAll(s, "$c", q.column) }
