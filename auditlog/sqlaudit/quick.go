package sqlaudit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/seed93082962/agenthost/auditlog"
)

// A page of all entries, of a category or of an action, and that within a time range, is one statement: head, total and
// items are of one moment then. Its parts are subqueries with a single row, which both engines run once.

// quick answers what it can in one statement, and in another where names are not known. It may not find that there is nothing.
func (s *Store) quick(ctx context.Context, q auditlog.Query) (p auditlog.Page, ok bool, err error) {
	if q.Limit <= 0 || q.Offset >= math.MaxInt64 || q.User != "" || q.Void() || !storable(q.TenantID) {
		return p, false, nil
	}
	view, n := int64(math.MaxInt64), min(int64(q.Limit), math.MaxInt32)
	if q.Snapshot != nil {
		view = signed(*q.Snapshot)
	}
	text := &statement{}
	text.head(q, view)
	if q.Category != "" || q.Action != "" {
		column, name := keyOf(q.Filter)
		text.key(column, name, signed(q.Offset), timed(q.Filter))
	} else {
		text.all(signed(q.Offset))
	}
	text.add(limit(n))
	found, err := s.answer(ctx, text, n)
	if err != nil || len(found.rows) == 0 {
		return p, false, err
	}
	p.Snapshot, p.Total = unsigned(min(view, found.id)), unsigned(found.last-found.first)
	want := min(unsigned(n), p.Total-min(q.Offset, p.Total))
	if !found.dense(signed(q.Offset), want) {
		return p, false, nil
	}
	items, nameless, err := s.items(ctx, q.TenantID, found.rows[:want]) // those behind are older than the view
	p.Items = items
	return p, err == nil && nameless == 0, err
}

// answer is what the statement gave.
type answer struct {
	id          int64 // of the log's last entry
	first, last int64 // positions: of the last entry before the view, and of the last one in it
	rows        []row
	places      []int64 // positions of the rows
}

// dense tells whether the rows begin with those behind the offset, without a gap.
func (a *answer) dense(offset int64, n uint64) bool {
	if uint64(len(a.places)) < n {
		return false
	}
	for i, at := range a.places[:n] {
		if at != a.last-offset-int64(i) {
			return false
		}
	}
	return true
}

// keyOf is what an action is counted by, or a category where no action is asked for; the two together are void unless they fit.
func keyOf(f auditlog.Filter) (column string, n keyName) {
	if f.Action != "" {
		return "action", keyName{kind: kindAction, name: f.Action}
	}
	return "category", keyName{kind: kindCategory, name: f.Category}
}

func (s *Store) answer(ctx context.Context, text *statement, n int64) (a answer, err error) {
	rows, err := s.read.query(ctx, text.String(), text.args...)
	if err != nil {
		return a, fmt.Errorf("read entries: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	a.rows, a.places = make([]row, 0, min(n, 100)), make([]int64, 0, min(n, 100))
	for int64(len(a.rows)) < n && rows.Next() {
		var r row
		var place, at int64
		err := rows.Scan(&a.id, &a.first, &a.last, &place, &r.ID, &at, &r.key[0], &r.key[1], &r.key[2], &r.TargetType, &r.TargetID,
			&r.TargetName, &r.Status, (*[]byte)(&r.Detail), &r.RemoteIP, &r.UserAgent, &r.Hash)
		if err != nil {
			return a, fmt.Errorf("read entries: %w", err)
		}
		r.CreatedAt = time.UnixMicro(at).UTC()
		a.rows, a.places = append(a.rows, r), append(a.places, place)
	}
	return a, rows.Err()
}
