package sqlaudit

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
)

// ranks remembers the positions of actors' last entries at or below an id. Nothing changes these: ids below a head never
// appear later, and Prune keeps the position of what it takes away. So it knows them for the ids that were asked about
// last, and goes on from a lower one by reading the entries between.
type ranks struct {
	mu    sync.Mutex // guards views
	views []*view    // the one asked for last is the last
}

// view is what is known of an id of a tenant.
type view struct {
	tenant, id int64

	mu    sync.Mutex // guards known
	known map[int64]int64
}

// What ranks remembers, and how far reading on is cheaper than asking for actors.
const (
	maxViews = 8
	maxRanks = 50_000 // of a view
	perActor = 16     // entries that are read in the time in which the position of an actor is looked up
	maxStep  = 65_536 // entries
)

// at gives the positions of actors at an id, in pairs with their keys. Of the pairs that it is given only the keys count.
func (r *ranks) at(ctx context.Context, s span, id int64, of [][2]int64) ([][2]int64, error) {
	v, below := r.view(s.tenant, id)
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.known) == 0 && below != nil && id-below.id <= perActor*below.knows(of) {
		if err := v.follow(ctx, s, below); err != nil {
			return nil, err
		}
	}
	all := make([][2]int64, 0, len(of))
	var missing [][2]int64
	for _, p := range of {
		if pos, ok := v.known[p[0]]; ok {
			all = append(all, [2]int64{p[0], pos})
		} else {
			missing = append(missing, p)
		}
	}
	if len(missing) == 0 {
		return all, nil
	}
	// Where all that an actor did up to the id was pruned, that is how much was pruned, unless more was by now.
	found, err := s.twos(ctx, `SELECT k.key, COALESCE((SELECT e.actor_pos FROM audit_entries e
			WHERE e.actor = k.key AND e.id <= $1 ORDER BY e.id DESC LIMIT 1),
			(SELECT f.floor FROM audit_keys f JOIN audit_heads h ON h.tenant = f.tenant WHERE f.key = k.key AND h.floor_id <= $1), -1)
		FROM `+fmt.Sprintf(s.store.sql.pairs, "$2")+" k", []any{id, set(missing)})
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(found, func(p [2]int64) bool { return p[1] < 0 }) {
		return nil, errPruned
	}
	if len(v.known)+len(found) > maxRanks {
		clear(v.known)
	}
	for _, p := range found {
		v.known[p[0]] = p[1]
	}
	return append(all, found...), nil
}

// view is that of an id, and the next lower one of the tenant where that is near.
func (r *ranks) view(tenant, id int64) (v, below *view) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, other := range r.views {
		switch {
		case other.tenant != tenant:
		case other.id == id:
			r.views = append(slices.Delete(r.views, i, i+1), other)
			return other, nil
		case other.id < id && id-other.id <= maxStep && (below == nil || other.id > below.id):
			below = other
		}
	}
	if len(r.views) == maxViews {
		r.views = slices.Delete(r.views, 0, 1)
	}
	v = &view{tenant: tenant, id: id, known: map[int64]int64{}}
	r.views = append(r.views, v)
	return v, below
}

// knows counts the actors whose positions are known.
func (v *view) knows(actors [][2]int64) (n int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, p := range actors {
		if _, ok := v.known[p[0]]; ok {
			n++
		}
	}
	return n
}

// follow takes what is known of a lower id, and reads the entries since.
func (v *view) follow(ctx context.Context, s span, below *view) error {
	since, err := s.twos(ctx, `SELECT e.actor, e.actor_pos FROM audit_entries e
		WHERE e.tenant = $1 AND e.id > $2 AND e.id <= $3 ORDER BY e.id`, []any{v.tenant, below.id, v.id})
	if err != nil {
		return err
	}
	if int64(len(since)) != v.id-below.id {
		return nil // some of them were pruned
	}
	below.mu.Lock()
	maps.Copy(v.known, below.known)
	below.mu.Unlock()
	for _, p := range since {
		if _, ok := v.known[p[0]]; ok {
			v.known[p[0]] = p[1]
		}
	}
	return nil
}
