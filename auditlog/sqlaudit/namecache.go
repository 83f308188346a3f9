package sqlaudit

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
)

// maxNames is the number of names that a store caches.
const maxNames = 20_000

// nameCache contains the names of keys. They never change.
type nameCache struct {
	mu    sync.Mutex // guards known
	known map[int64]name
}

// fill sets the texts of the entries that are stored as keys. It returns the first entry without
// one of them, which is in a damaged log, or was pruned between two statements.
func (c *nameCache) fill(ctx context.Context, e engine, db querier, tenantID string, rows []row) (nameless *row, err error) {
	names, unknown := c.get(rows)
	if len(unknown) > 0 {
		if err := readNames(ctx, e, db, unknown, names); err != nil {
			return nil, err
		}
		c.put(unknown, names)
	}
	for i := range rows {
		r := &rows[i]
		for _, k := range r.key {
			if names[k].kind == 0 && nameless == nil {
				nameless = r
			}
		}
		r.setNames(tenantID, names)
	}
	return nameless, nil
}

func (r *row) setNames(tenantID string, names map[int64]name) {
	actor := names[r.key[2]]
	r.TenantID, r.Category, r.Action = tenantID, names[r.key[0]].text, names[r.key[1]].text
	r.UserName, r.UserID = actor.text, actor.userID
}

func (c *nameCache) get(rows []row) (names map[int64]name, unknown []int64) {
	names = make(map[int64]name, 16)
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range rows {
		for _, k := range rows[i].key {
			if _, ok := names[k]; ok {
				continue
			}
			n, ok := c.known[k]
			if names[k] = n; !ok {
				unknown = append(unknown, k)
			}
		}
	}
	return names, unknown
}

func (c *nameCache) put(keys []int64, names map[int64]name) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil || len(c.known)+len(keys) > maxNames {
		c.known = make(map[int64]name, len(keys))
	}
	for _, k := range keys {
		if n := names[k]; n.kind != 0 {
			c.known[k] = n
		}
	}
}

func readNames(ctx context.Context, e engine, db querier, keys []int64, into map[int64]name) error {
	query := `SELECT k.key, k.kind, COALESCE(u.name, k.name), COALESCE(u.user_id, '')
		FROM audit_keys k LEFT JOIN audit_keys u ON u.key = k.owner
		WHERE (k.owner IS NULL OR u.key IS NOT NULL) AND k.key IN ` + fmt.Sprintf(e.set, "$1")
	err := forEach(ctx, db, query, []any{jsonSet(keys)}, func(row *sql.Rows) error {
		var k int64
		var n name
		err := row.Scan(&k, &n.kind, &n.text, &n.userID)
		into[k] = n
		return err
	})
	if err != nil {
		return fmt.Errorf("read names: %w", err)
	}
	return nil
}
