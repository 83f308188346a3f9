package auditlog

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"slices"
	"sort"
	"sync"
	"time"
)

// Memory is a [Store] that keeps its logs in the process. A page costs the same at any depth, unless a user is searched for.
type Memory struct {
	// Now is the clock. Defaults to time.Now. It is not to be changed once entries are appended.
	Now func() time.Time

	mu   sync.RWMutex // guards logs and what is in them
	logs map[string]*memoryLog
}

var _ Store = (*Memory)(nil)

// NewMemory returns an empty store.
func NewMemory() *Memory { return new(Memory) }

// memoryLog is the log of one tenant. Its slices are only appended to, or replaced as a whole by Prune: a copy of a slice
// header taken under the lock can be read without it.
type memoryLog struct {
	checkpoint, head Head
	entries          []Entry             // ids checkpoint.ID+1 to head.ID
	category, action map[string][]uint64 // ids, ascending
}

// Append implements [Store].
func (m *Memory) Append(ctx context.Context, records ...Record) error {
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
	now := time.Now
	if m.Now != nil {
		now = m.Now
	}
	at := now()
	for _, r := range records {
		l := m.logs[r.TenantID()]
		if l == nil {
			l = &memoryLog{category: map[string][]uint64{}, action: map[string][]uint64{}}
		}
		e, err := r.Seal(l.head, at)
		if err != nil { // cannot be: Err was asked
			return fmt.Errorf("append audit entry: %w", err)
		}
		if m.logs == nil {
			m.logs = map[string]*memoryLog{}
		}
		m.logs[r.TenantID()] = l
		l.add(own(e))
	}
	return nil
}

func (l *memoryLog) add(e Entry) {
	l.entries = append(l.entries, e)
	l.category[e.Category] = append(l.category[e.Category], e.ID)
	l.action[e.Action] = append(l.action[e.Action], e.ID)
	l.head = e.Head()
}

// Query implements [Store].
func (m *Memory) Query(ctx context.Context, q Query) (Page, error) {
	if err := ctx.Err(); err != nil {
		return Page{}, fmt.Errorf("query audit log: %w", err)
	}
	some, view := m.part(q.TenantID, q.Filter, q.Snapshot)
	page := Page{Snapshot: view}
	if q.User == "" {
		page.Total = uint64(some.len()) //nolint:gosec // a length
		for i := q.Offset; i < page.Total && len(page.Items) < q.Limit; i++ {
			page.Items = append(page.Items, own(some.at(some.len()-1-int(i)))) //nolint:gosec // below the length of a slice
		}
		return page, nil
	}
	only := Filter{User: Fold(q.User)}
	for i := some.len() - 1; i >= 0; i-- {
		if e := some.at(i); only.Matches(e) {
			if page.Total >= q.Offset && len(page.Items) < q.Limit {
				page.Items = append(page.Items, own(e))
			}
			page.Total++
		}
	}
	return page, nil
}

// Entries implements [Store]. It sees the log as it is when the loop begins, whatever is pruned meanwhile.
func (m *Memory) Entries(ctx context.Context, tenantID string, f Filter, snapshot *uint64) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		some, _ := m.part(tenantID, f, snapshot)
		only := Filter{User: Fold(f.User)}
		for i := range some.len() {
			if err := ctx.Err(); err != nil {
				yield(Entry{}, fmt.Errorf("read audit log: %w", err))
				return
			}
			if e := some.at(i); only.Matches(e) && !yield(own(e), nil) {
				return
			}
		}
	}
}

// Head implements [Store].
func (m *Memory) Head(ctx context.Context, tenantID string) (Head, error) {
	return m.headOf(ctx, tenantID, func(l *memoryLog) Head { return l.head })
}

// Checkpoint implements [Store].
func (m *Memory) Checkpoint(ctx context.Context, tenantID string) (Head, error) {
	return m.headOf(ctx, tenantID, func(l *memoryLog) Head { return l.checkpoint })
}

func (m *Memory) headOf(ctx context.Context, tenantID string, which func(*memoryLog) Head) (Head, error) {
	if err := ctx.Err(); err != nil {
		return Head{}, fmt.Errorf("read head of audit log: %w", err)
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	l := m.logs[tenantID]
	if l == nil {
		return Head{}, nil
	}
	h := which(l)
	h.Hash = bytes.Clone(h.Hash)
	return h, nil
}

// Prune implements [Store].
func (m *Memory) Prune(ctx context.Context, tenantID string, before time.Time) (uint64, error) {
	if err := ctx.Err(); err != nil {
		return 0, fmt.Errorf("prune audit log: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.logs[tenantID]
	if l == nil {
		return 0, nil
	}
	n := sort.Search(len(l.entries), func(i int) bool { return !l.entries[i].CreatedAt.Before(before) })
	if n == 0 {
		return 0, nil
	}
	l.checkpoint = l.entries[n-1].Head()
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
	return uint64(n), nil //nolint:gosec // a length
}

// part is some entries of a log, oldest first: all of entries, or those that ids name.
type part struct {
	entries []Entry
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

func (p part) at(i int) Entry {
	if p.listed {
		return p.entries[p.ids[i]-p.first]
	}
	return p.entries[i]
}

// part finds what fits the filter but for the user, and the view.
func (m *Memory) part(tenantID string, f Filter, snapshot *uint64) (part, uint64) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	l := m.logs[tenantID]
	if l == nil {
		return part{}, 0
	}
	view := Query{Snapshot: snapshot}.View(l.head.ID)
	if f.Void() || view <= l.checkpoint.ID {
		return part{}, view
	}
	// Times never decrease along ids, so a time range is a range of ids.
	p := part{entries: l.entries[:view-l.checkpoint.ID]}
	from, to := f.Micros()
	lo := sort.Search(len(p.entries), func(i int) bool { return p.entries[i].CreatedAt.UnixMicro() >= from })
	hi := sort.Search(len(p.entries), func(i int) bool { return p.entries[i].CreatedAt.UnixMicro() > to })
	p.entries = p.entries[lo:hi]
	p.first = l.checkpoint.ID + 1 + uint64(lo) //nolint:gosec // an index
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

// own is a copy that shares nothing which can be changed.
func own(e Entry) Entry {
	e.Detail, e.Hash = bytes.Clone(e.Detail), bytes.Clone(e.Hash)
	return e
}
