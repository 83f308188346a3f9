package sqlaudit

import (
	"context"
	"fmt"
	"math/bits"
)

// actors is the entries of a span by some users.
type actors struct {
	span
	keys  []int64    // those that have entries there
	lasts [][2]int64 // these with the positions of their last entries at or below hi
	base  int64      // sum of the positions at or below lo
	count int64
}

// actors counts, and leaves out who did nothing in the span. It is given keys with the positions of their last pruned entries,
// and counts as of when these were read: positions at an id do not change.
func (s span) actors(ctx context.Context, floors [][2]int64) (*actors, error) {
	all := &actors{span: s}
	if len(floors) == 0 {
		return all, nil
	}
	last, err := s.store.ranks.at(ctx, s, s.hi, floors)
	if err != nil {
		return nil, err
	}
	firsts := make(map[int64]int64, len(floors))
	for _, p := range floors {
		firsts[p[0]] = p[1]
	}
	if s.lo > s.floor {
		before, err := s.store.ranks.at(ctx, s, s.lo, floors)
		if err != nil {
			return nil, err
		}
		for _, p := range before {
			firsts[p[0]] = max(firsts[p[0]], p[1])
		}
	}
	for _, p := range last {
		if first := firsts[p[0]]; p[1] > first {
			all.keys = append(all.keys, p[0])
			all.lasts = append(all.lasts, p)
			all.base += first
			all.count += p[1] - first
		}
	}
	return all, nil
}

func (a *actors) total() int64 { return a.count }

// Limits of what is cheaper than a search.
const (
	fewOffset = 256   // entries read to be dropped
	farWalk   = 4_096 // entries looked at one by one
)

func (a *actors) page(ctx context.Context, offset, n int64) ([]row, error) {
	from := *a
	if offset > fewOffset {
		hi, err := a.seek(ctx, a.count-offset)
		if err != nil {
			return nil, err
		}
		from.hi, offset = hi, 0
	}
	want := offset + n
	if far := 4 * float64(want) * float64(a.hi-a.lo) / float64(a.count); far <= farWalk {
		rows, err := from.walk(ctx, int64(far), want)
		if err != nil {
			return nil, err
		}
		if int64(len(rows)) == want {
			return rows[offset:], nil
		}
	}
	rows, err := from.merge(ctx, want)
	return rows[min(offset, int64(len(rows))):], err
}

// seek finds the id of the entry at a position, counted from lo: bisection in one statement, whose steps are powers of two.
// Who has no entries before is where pruning left it, or at the end where nothing is left: so the answer is right if
// the entry is still there.
func (a *actors) seek(ctx context.Context, position int64) (id int64, err error) {
	query := "WITH RECURSIVE k AS MATERIALIZED (SELECT p.key, COALESCE(f.floor, p.pos) AS floor FROM " +
		fmt.Sprintf(a.store.sql.pairs, "$5") + ` p LEFT JOIN audit_keys f ON f.key = p.key),
		s (at, step) AS (SELECT CAST($1 AS BIGINT), CAST($2 AS BIGINT) UNION ALL
			SELECT CASE WHEN s.at + s.step < $3 AND (SELECT SUM(COALESCE((SELECT e.actor_pos FROM audit_entries e
				WHERE e.actor = k.key AND e.id <= s.at + s.step ORDER BY e.id DESC LIMIT 1), k.floor)) FROM k) < $4
			THEN s.at + s.step ELSE s.at END, s.step / 2 FROM s WHERE s.step > 0)
		SELECT MAX(at) + 1 FROM s`
	step := int64(1) << bits.Len64(unsigned(a.hi-a.lo)) >> 1
	if err = a.store.read.row(ctx, query, []any{a.lo, step, a.hi, a.base + position, set(a.lasts)}, &id); err != nil {
		return 0, fmt.Errorf("find entry of users: %w", err)
	}
	return id, nil
}

// walk looks at the newest entries one by one. It may find fewer than n.
func (a *actors) walk(ctx context.Context, far, n int64) ([]row, error) {
	wanted := make(map[int64]bool, len(a.keys))
	for _, k := range a.keys {
		wanted[k] = true
	}
	seen, err := a.twos(ctx, `SELECT e.id, e.actor FROM audit_entries e
		WHERE e.tenant = $1 AND e.id > $2 AND e.id <= $3 ORDER BY e.id DESC`+limit(far), []any{a.tenant, max(a.lo, a.hi-far), a.hi})
	if err != nil {
		return nil, fmt.Errorf("find users' last entries: %w", err)
	}
	var ids []int64
	for _, e := range seen {
		if wanted[e[1]] && int64(len(ids)) < n {
			ids = append(ids, e[0])
		}
	}
	return a.byID(ctx, ids)
}

// merge takes the newest entries of each actor. Only those n actors whose last entries are the newest can matter.
func (a *actors) merge(ctx context.Context, n int64) ([]row, error) {
	newest, err := a.twos(ctx, `SELECT k.key, COALESCE((SELECT e.id FROM audit_entries e
			WHERE e.actor = k.key AND e.id <= $1 ORDER BY e.id DESC LIMIT 1), 0) AS last
		FROM `+fmt.Sprintf(a.store.sql.pairs, "$2")+" k ORDER BY last DESC LIMIT $3", []any{a.hi, set(a.lasts), n})
	if err != nil {
		return nil, fmt.Errorf("find users' last entries: %w", err)
	}
	ids, err := a.find(ctx, "SELECT e.id FROM "+fmt.Sprintf(a.store.sql.pairs, "$4")+` k
		JOIN audit_entries e ON e.actor = k.key AND e.id > $1 AND e.id <= $2
			AND e.id >= COALESCE((SELECT b.id FROM audit_entries b WHERE b.actor = k.key AND b.id <= $2
				ORDER BY b.id DESC LIMIT 1 OFFSET $3), 0)
		ORDER BY e.id DESC LIMIT $5`, []any{a.lo, a.hi, n - 1, set(newest), n})
	if err != nil {
		return nil, fmt.Errorf("find users' entries: %w", err)
	}
	return a.byID(ctx, ids)
}

// byID reads entries, newest first.
func (s span) byID(ctx context.Context, ids []int64) ([]row, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	return s.entries(ctx, "e.tenant = $1 AND e.id IN "+fmt.Sprintf(s.store.sql.set, "$2")+" ORDER BY e.id DESC",
		int64(len(ids)), s.tenant, set(ids))
}

// window is how many ids a chunk of many users covers.
const window = 8_192

func (a *actors) chunk(ctx context.Context, after, n int64) ([]row, int64, error) {
	after = max(after, a.lo)
	to := min(a.hi, after+window)
	rows, err := a.entries(ctx, "e.tenant = $1 AND e.id > $2 AND e.id <= $3 AND (e.actor IN "+
		fmt.Sprintf(a.store.sql.set, "$4")+") IS TRUE ORDER BY e.id"+limit(n), n, a.tenant, after, to, set(a.keys))
	if int64(len(rows)) == n {
		to = signed(rows[n-1].ID)
	}
	return rows, to, err
}
