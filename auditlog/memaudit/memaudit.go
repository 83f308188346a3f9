// Package memaudit stores audit logs in the memory of the process, for tests and for programs that
// need no durable log.
package memaudit

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/internal/leaf/auditstore"
)

// Store is an [auditlog.Store] in memory; the zero Store is empty. A page costs the same at any
// depth, except with a user in the filter.
type Store struct {
	// Now is the clock. Defaults to time.Now. It must not change after the first Append.
	Now func() time.Time

	mu   sync.RWMutex // guards logs and their contents
	logs map[string]*log
}

var _ auditlog.Store = (*Store)(nil)

// log is the log of one tenant. Its slices are only appended to, or replaced as a whole by Prune: a
// slice header that was copied under the lock can be read without it.
type log struct {
	checkpoint, head auditlog.Head
	entries          []auditlog.Entry    // ids checkpoint.ID+1 to head.ID
	category, action map[string][]uint64 // ids, ascending
}

// Append implements [auditlog.Store].
func (m *Store) Append(ctx context.Context, records ...auditlog.Record) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("append audit entry: %w", err)
	}

	for _, r := range records {
		if err := r.Err(); err != nil {
			return fmt.Errorf("append audit entry: %w", err)
		}
	}

	m.mu.Lock()
	defer m.mu.Unlock()
	at := m.now()
	for _, r := range records {
		l := m.logs[r.TenantID()]
		if l == nil {
			l = &log{category: map[string][]uint64{}, action: map[string][]uint64{}}
		}

		if m.logs == nil {
			m.logs = map[string]*log{}
		}

		m.logs[r.TenantID()] = l
		if err := l.append(r, at); err != nil {
			return fmt.Errorf("append audit entry: %w", err)
		}
	}

	return nil
}

func (m *Store) now() time.Time {
	if m.Now == nil {
		return time.Now()
	}

	return m.Now()
}

func (l *log) append(r auditlog.Record, at time.Time) error {
	if err := r.Err(); err != nil {
		return err
	}

	e := r.Entry()
	e.Seal(l.head, at)
	e = clone(e)
	l.entries = append(l.entries, e)
	l.category[e.Category] = append(l.category[e.Category], e.ID)
	l.action[e.Action] = append(l.action[e.Action], e.ID)
	l.head = e.Head()
	return nil
}

// Query implements [auditlog.Store].
func (m *Store) Query(ctx context.Context, q auditlog.Query) (auditlog.Page, error) {
	if err := ctx.Err(); err != nil {
		return auditlog.Page{}, fmt.Errorf("query audit log: %w", err)
	}

	some, view := m.part(q.TenantID, q.Filter, q.Snapshot)
	page := auditlog.Page{Snapshot: view}
	size, full := 0, false
	add := func(e auditlog.Entry) {
		size += len(e.Detail)
		if full = full || q.Bytes > 0 && size > q.Bytes && len(page.Items) > 0; !full {
			page.Items = append(page.Items, clone(e))
		}
	}
	if q.User == "" {
		page.Total = uint64(some.len())
		for i := q.Offset; i < page.Total && len(page.Items) < q.Limit && !full; i++ {
			add(some.at(some.len() - 1 - int(i)))
		}

		return page, nil
	}

	only := auditlog.Filter{User: auditstore.Fold(q.User)}
	for i := some.len() - 1; i >= 0; i-- {
		if e := some.at(i); only.Matches(e) {
			if page.Total >= q.Offset && len(page.Items) < q.Limit {
				add(e)
			}

			page.Total++
		}
	}

	return page, nil
}

// Entries implements [auditlog.Store]. It yields the entries that the log contains at the begin of
// the iteration.
func (m *Store) Entries(ctx context.Context, tenantID string, f auditlog.Filter, snapshot *uint64) iter.Seq2[auditlog.Entry, error] {
	return func(yield func(auditlog.Entry, error) bool) {
		some, _ := m.part(tenantID, f, snapshot)
		only := auditlog.Filter{User: auditstore.Fold(f.User)}
		for i := range some.len() {
			if err := ctx.Err(); err != nil {
				yield(auditlog.Entry{}, fmt.Errorf("read audit log: %w", err))
				return
			}

			if e := some.at(i); only.Matches(e) && !yield(clone(e), nil) {
				return
			}
		}
	}
}

// Head implements [auditlog.Store].
func (m *Store) Head(ctx context.Context, tenantID string) (auditlog.Head, error) {
	return m.headOf(ctx, tenantID, func(l *log) auditlog.Head { return l.head })
}

// Checkpoint implements [auditlog.Store].
func (m *Store) Checkpoint(ctx context.Context, tenantID string) (auditlog.Head, error) {
	return m.headOf(ctx, tenantID, func(l *log) auditlog.Head { return l.checkpoint })
}

func (m *Store) headOf(ctx context.Context, tenantID string, which func(*log) auditlog.Head) (auditlog.Head, error) {
	if err := ctx.Err(); err != nil {
		return auditlog.Head{}, fmt.Errorf("read head of audit log: %w", err)
	}

	m.mu.RLock()
	defer m.mu.RUnlock()
	l := m.logs[tenantID]
	if l == nil {
		return auditlog.Head{}, nil
	}

	h := which(l)
	h.Hash = bytes.Clone(h.Hash)
	return h, nil
}

// Prune implements [auditlog.Store].
func (m *Store) Prune(ctx context.Context, tenantID string, retention time.Duration,
	as auditlog.Action[auditlog.Pruning],
) (uint64, error) {
	if err := ctx.Err(); err != nil {
		return 0, fmt.Errorf("prune audit log: %w", err)
	}

	m.mu.Lock()
	defer m.mu.Unlock()
	at := m.now()
	before, err := auditstore.Cutoff(retention, at)
	if err != nil {
		return 0, fmt.Errorf("prune audit log: %w", err)
	}

	l := m.logs[tenantID]
	if l == nil {
		return 0, nil
	}

	n := sort.Search(len(l.entries), func(i int) bool { return !l.entries[i].CreatedAt.Before(before) })
	if n == 0 {
		return 0, nil
	}

	last := l.entries[n-1].Head()
	r := as.Record(auditlog.Event{TenantID: tenantID}, auditlog.Pruning{
		Entries: last.ID - l.checkpoint.ID, Before: before, RetentionSeconds: int64(retention / time.Second), Checkpoint: last,
	})
	if err := l.append(r, at); err != nil {
		return 0, fmt.Errorf("prune audit log: %w", err)
	}

	l.checkpoint = last
	l.entries = slices.Clone(l.entries[n:])
	for _, lists := range []map[string][]uint64{l.category, l.action} {
		for name, ids := range lists {
			if first, _ := slices.BinarySearch(ids, l.checkpoint.ID+1); first < len(ids) {
				lists[name] = slices.Clone(ids[first:])
			} else {
				delete(lists, name)
			}
		}
	}

	return uint64(n), nil
}

// part is a part of a log, oldest first: all of entries, or those with the given ids.
type part struct {
	entries []auditlog.Entry
	first   uint64 // id of entries[0]
	listed  bool
	ids     []uint64
}

func (p part) len() int {
	if p.listed {
		return len(p.ids)
	}

	return len(p.entries)
}

func (p part) at(i int) auditlog.Entry {
	if p.listed {
		return p.entries[p.ids[i]-p.first]
	}

	return p.entries[i]
}

// part returns the entries that match the filter except for its user, and the view.
func (m *Store) part(tenantID string, f auditlog.Filter, snapshot *uint64) (part, uint64) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	l := m.logs[tenantID]
	if l == nil {
		return part{}, 0
	}

	view := auditstore.View(snapshot, l.head.ID)
	if f.Void() || view <= l.checkpoint.ID {
		return part{}, view
	}

	// Times never decrease along ids, so a time range is a range of ids.
	p := part{entries: l.entries[:view-l.checkpoint.ID]}
	from, to := f.Micros()
	lo := sort.Search(len(p.entries), func(i int) bool { return p.entries[i].CreatedAt.UnixMicro() >= from })
	hi := sort.Search(len(p.entries), func(i int) bool { return p.entries[i].CreatedAt.UnixMicro() > to })
	if f.AfterID > l.checkpoint.ID {
		lo = max(lo, int(min(f.AfterID-l.checkpoint.ID, uint64(len(p.entries)))))
		hi = max(lo, hi)
	}

	p.entries = p.entries[lo:hi]
	p.first = l.checkpoint.ID + 1 + uint64(lo)
	switch {
	case f.Action != "":
		p.listed, p.ids = true, l.action[f.Action]
	case f.Category != "":
		p.listed, p.ids = true, l.category[f.Category]
	}

	if p.listed {
		p.ids = within(p.ids, p.first, p.first+uint64(len(p.entries)))
	}

	return p, view
}

// within returns the ids from lo to just before hi.
func within(ids []uint64, lo, hi uint64) []uint64 {
	i, _ := slices.BinarySearch(ids, lo)
	j, _ := slices.BinarySearch(ids, hi)
	return ids[i:j]
}

// clone returns a copy of e that shares no memory with it.
func clone(e auditlog.Entry) auditlog.Entry {
	e.Detail, e.Hash = bytes.Clone(e.Detail), bytes.Clone(e.Hash)
	return e
}
