package sqlaudit

import (
	"context"
)

// checker fills in names as the database has them now, and compares the positions of entries, which no hash covers, with
// what they must be.
type checker struct {
	store    *Store
	log      log
	tenantID string
	seen     map[int64]seen
}

// seen is a key with the position of its last entry so far.
type seen struct {
	name name
	pos  int64
}

func (c *checker) fill(ctx context.Context, rows []row) error {
	if err := c.learn(ctx, rows); err != nil {
		return err
	}
	keys := make(map[int64]name, 3)
	for i := range rows {
		r := &rows[i]
		clear(keys)
		fits := true
		for j, k := range r.key {
			known := c.seen[k]
			keys[k] = known.name
			fits = fits && r.pos[j] == known.pos+1 && known.name.kind == j+1
			known.pos = r.pos[j]
			c.seen[k] = known
		}
		r.named(c.tenantID, keys)
		if actor := keys[r.key[2]]; !fits || !actor.findable || actor.category != r.key[0] {
			r.Hash = nil
		}
	}
	return nil
}

// learn asks for the keys that were not seen before. Theirs must be the first entries that are left.
func (c *checker) learn(ctx context.Context, rows []row) error {
	fresh := map[int64]name{}
	for i := range rows {
		for _, k := range rows[i].key {
			if _, ok := c.seen[k]; !ok {
				fresh[k] = name{}
			}
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	keys := make([]int64, 0, len(fresh))
	for k := range fresh {
		keys = append(keys, k)
	}
	if err := c.store.ask(ctx, keys, fresh); err != nil {
		return err
	}
	for k, n := range fresh {
		c.seen[k] = seen{name: n, pos: n.floor}
	}
	return nil
}
