package sqlaudit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/seed93082962/agenthost/auditlog"
)

// Query answers one page.
func (s *Store) Query(ctx context.Context, q auditlog.Query) (auditlog.Page, error) {
	var before *gap
	for range 8 {
		p, g, err := s.page(ctx, q)
		if err != nil {
			return auditlog.Page{}, fmt.Errorf("query audit log: %w", err)
		}
		if g == nil {
			return p, nil
		}
		// Entries may have been pruned between the count and the items.
		if g.again(before) {
			return auditlog.Page{}, fmt.Errorf("query audit log: %w", &auditlog.DamagedError{TenantID: q.TenantID, ID: g.id})
		}
		s.ranks.forget()
		before = g
	}
	return auditlog.Page{}, errors.New("query audit log: entries were pruned each time after they were counted")
}

func (s *Store) page(ctx context.Context, q auditlog.Query) (p auditlog.Page, g *gap, err error) {
	if p, ok, err := s.quick(ctx, q); ok || err != nil {
		return p, nil, err
	}
	l, err := s.log(ctx, q.TenantID)
	if err != nil {
		return p, nil, err
	}
	p.Items = []auditlog.Entry{}
	p.Snapshot = q.View(l.head.ID)
	from, err := s.source(ctx, l, q.Filter, p.Snapshot)
	switch {
	case errors.Is(err, errPruned):
		return p, &gap{floor: l.floor.ID}, nil
	case err != nil:
		return p, nil, err
	}
	total := from.total()
	p.Total = unsigned(total)
	if q.Limit <= 0 || q.Offset >= p.Total {
		return p, nil, nil
	}
	n := min(int64(q.Limit), total-signed(q.Offset))
	rows, err := from.page(ctx, signed(q.Offset), n)
	if err != nil {
		return p, nil, err
	}
	if id, ok := dense(from, signed(q.Offset), n, rows); !ok {
		return p, &gap{floor: l.floor.ID, id: id}, nil
	}
	items, nameless, err := s.items(ctx, q.TenantID, rows)
	switch {
	case err != nil:
		return p, nil, err
	case nameless > 0:
		return p, &gap{floor: l.floor.ID, id: nameless}, nil
	}
	p.Items = items
	return p, nil, nil
}

// items fills in names, see fill.
func (s *Store) items(ctx context.Context, tenantID string, rows []row) (all []auditlog.Entry, nameless uint64, err error) {
	if nameless, err = s.fill(ctx, tenantID, rows); err != nil {
		return nil, 0, err
	}
	all = make([]auditlog.Entry, len(rows))
	for i := range rows {
		all[i] = rows[i].Entry
	}
	return all, nameless, nil
}

// span is the entries of a log whose ids are above lo and at most hi.
type span struct {
	store  *Store
	tenant int64
	floor  int64 // id of the last pruned entry
	lo, hi int64
}

// source is the entries of a span that fit a filter.
type source interface {
	total() int64

	// page gives n entries, newest first, behind offset newer ones. There are that many.
	page(ctx context.Context, offset, n int64) ([]row, error)

	// chunk gives some of the entries above an id, oldest first, at most n, and the id that it came to.
	chunk(ctx context.Context, after, n int64) ([]row, int64, error)
}

// source finds out what a filter comes to.
func (s *Store) source(ctx context.Context, l log, f auditlog.Filter, snapshot uint64) (source, error) {
	sp, err := s.span(ctx, l, f, snapshot)
	switch {
	case err != nil:
		return nil, err
	case sp.lo >= sp.hi || f.Void():
		sp.lo = sp.hi
		return sp, nil
	}
	var from source = sp
	if f.Category != "" || f.Action != "" {
		part, err := sp.sequence(ctx, f)
		if err != nil || part.total() == 0 || f.User == "" {
			return part, err
		}
		from = part
	}
	if f.User == "" {
		return from, nil
	}
	return sp.users(ctx, f, from)
}

// span turns a time range into one of ids, which is the same because times never decrease along ids.
func (s *Store) span(ctx context.Context, l log, f auditlog.Filter, snapshot uint64) (span, error) {
	sp := span{store: s, tenant: l.tenant, floor: signed(l.floor.ID), lo: signed(l.floor.ID), hi: signed(snapshot)}
	sp.hi = max(sp.hi, sp.lo)
	if sp.lo == sp.hi || !timed(f) {
		return sp, nil
	}
	from, to := f.Micros()
	var first, last int64
	// The floor is read again, because what it was before is no place to begin at once more is pruned.
	const query = "WITH log AS MATERIALIZED (SELECT tenant, floor_id AS lo, CAST($2 AS BIGINT) AS before, CAST($3 AS BIGINT) AS until" +
		" FROM audit_heads WHERE tenant = $1), " + between + " SELECT lo, first, last FROM ids"
	err := s.read.row(ctx, query, []any{sp.tenant, max(from, math.MinInt64+1) - 1, to}, &sp.floor, &first, &last)
	if err != nil {
		return sp, fmt.Errorf("find time range: %w", err)
	}
	sp.lo = max(sp.floor, first)
	sp.hi = max(min(sp.hi, last), sp.lo)
	return sp, nil
}

// The span itself is the source of all its entries: ids are dense.

func (s span) total() int64 { return s.hi - s.lo }

func (s span) page(ctx context.Context, offset, n int64) ([]row, error) {
	return s.entries(ctx, "e.tenant = $1 AND e.id <= $2 ORDER BY e.id DESC"+limit(n), n, s.tenant, s.hi-offset)
}

func (s span) chunk(ctx context.Context, after, n int64) ([]row, int64, error) {
	after = max(after, s.lo)
	to := min(s.hi, after+n)
	rows, err := s.entries(ctx, "e.tenant = $1 AND e.id > $2 AND e.id <= $3 ORDER BY e.id"+limit(n), n, s.tenant, after, to)
	return rows, to, err
}

const entryColumns = `e.id, e.created_at, e.category, e.category_pos, e.action, e.action_pos, e.actor, e.actor_pos,
	e.target_type, e.target_id, e.target_name, e.status, e.detail, e.remote_ip, e.user_agent, e.hash`

func (s span) entries(ctx context.Context, where string, n int64, args ...any) ([]row, error) {
	return s.scan(ctx, "SELECT "+entryColumns+" FROM audit_entries e WHERE "+where, n, args...)
}

// limit writes a limit of at least n into the statement, because PostgreSQL plans badly, and anew each time, for one that is a
// parameter. There are few of them, so that statements stay few.
func limit(n int64) string {
	most := int64(20)
	for most < n {
		most *= 5
	}
	return " LIMIT " + strconv.FormatInt(most, 10)
}

// scan reads the first n entries, without their names.
func (s span) scan(ctx context.Context, query string, n int64, args ...any) (all []row, err error) {
	rows, err := s.store.read.query(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("read entries: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	all = make([]row, 0, min(n, 1024))
	for int64(len(all)) < n && rows.Next() {
		var r row
		var at int64
		err := rows.Scan(&r.ID, &at, &r.key[0], &r.pos[0], &r.key[1], &r.pos[1], &r.key[2], &r.pos[2], &r.TargetType, &r.TargetID,
			&r.TargetName, &r.Status, (*[]byte)(&r.Detail), &r.RemoteIP, &r.UserAgent, &r.Hash)
		if err != nil {
			return nil, fmt.Errorf("read entries: %w", err)
		}
		r.CreatedAt = time.UnixMicro(at).UTC()
		all = append(all, r)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read entries: %w", err)
	}
	return all, nil
}
