package sqlaudit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
)

// name is what a key stands for.
type name struct {
	kind   int
	name   string
	userID string
}

// maxNames bounds what a store remembers of names.
const maxNames = 20_000

// names remembers names: those of a key never change.
type names struct {
	mu    sync.Mutex // guards known
	known map[int64]name
}

func (n *names) get(keys map[int64]name) (missing []int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for k := range keys {
		found, ok := n.known[k]
		if !ok {
			missing = append(missing, k)
			continue
		}
		keys[k] = found
	}
	return missing
}

func (n *names) put(keys []int64, from map[int64]name) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.known == nil || len(n.known)+len(keys) > maxNames {
		n.known = make(map[int64]name, len(keys))
	}
	for _, k := range keys {
		if found, ok := from[k]; ok && found.kind != 0 {
			n.known[k] = found
		}
	}
}

// fill puts the names into entries. Names that are not in the database any more stay empty; it tells the id of the first
// entry that has one, or 0.
func (s *Store) fill(ctx context.Context, tenantID string, rows []row) (nameless uint64, err error) {
	keys := make(map[int64]name, 16)
	for i := range rows {
		for _, k := range rows[i].key {
			keys[k] = name{}
		}
	}
	if missing := s.names.get(keys); len(missing) > 0 {
		if err := s.ask(ctx, missing, keys); err != nil {
			return 0, err
		}
		s.names.put(missing, keys)
	}
	for i := range rows {
		rows[i].named(tenantID, keys)
		for _, k := range rows[i].key {
			if keys[k].kind == 0 && nameless == 0 {
				nameless = rows[i].ID
			}
		}
	}
	return nameless, nil
}

func (r *row) named(tenantID string, keys map[int64]name) {
	actor := keys[r.key[2]]
	r.TenantID, r.Category, r.Action = tenantID, keys[r.key[0]].name, keys[r.key[1]].name
	r.UserName, r.UserID = actor.name, actor.userID
}

// ask reads names from the database.
func (s *Store) ask(ctx context.Context, keys []int64, into map[int64]name) (err error) {
	rows, err := s.read.query(ctx, `SELECT k.key, k.kind, COALESCE(u.name, k.name), COALESCE(u.user_id, '')
		FROM audit_keys k LEFT JOIN audit_keys u ON u.key = k.owner
		WHERE (k.owner IS NULL OR u.key IS NOT NULL) AND k.key IN `+fmt.Sprintf(s.sql.set, "$1"), set(keys))
	if err != nil {
		return fmt.Errorf("read names: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var k int64
		var n name
		if err := rows.Scan(&k, &n.kind, &n.name, &n.userID); err != nil {
			return fmt.Errorf("read names: %w", err)
		}
		into[k] = n
	}
	return rows.Err()
}

// set is a parameter for what dialect makes of it.
func set[T int64 | [2]int64](all []T) string {
	text, err := json.Marshal(all)
	if err != nil {
		panic(err) // integers
	}
	return string(text)
}
