package sqlaudit

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/auditlog/driver"
)

// chain is the end of a log as a writer knows it: its head row, and the position of the last entry
// of each key. One writer at a time has it.
type chain struct {
	log
	keys map[name]*key
	made bool // the current transaction inserted keys, which do not exist if it is rolled back
}

// key is a row of audit_keys with the position of its last entry.
type key struct{ id, pos int64 }

// row is an entry with its keys, and its position within each of them: category, action, actor.
type row struct {
	auditlog.Entry
	key, pos [3]int64
	keys     [3]*key // of an entry that is to be appended
}

// current reports whether the head row is still the one that the chain ends at. A transaction that
// was rolled back, other writers and prunings change it.
func (c *chain) current(l log) bool {
	return c != nil && c.tenant == l.tenant && c.epoch == l.epoch && c.head.ID == l.head.ID && bytes.Equal(c.head.Hash, l.head.Hash)
}

// rows returns the records as entries that are not sealed, with their keys, and the names that the
// chain has no keys for.
func (c *chain) rows(records []auditlog.Record) (rows []row, missing []name) {
	rows = make([]row, len(records))
	seen := map[name]bool{}
	for i := range records {
		r := &rows[i]
		r.Entry = records[i].Entry()
		for j, n := range namesOf(&r.Entry) {
			if r.keys[j] = c.keys[n]; r.keys[j] == nil && !seen[n] {
				seen[n] = true
				missing = append(missing, n)
			}
		}
	}
	return rows, missing
}

// seal completes the entries and moves the chain to the last of them.
func (c *chain) seal(rows []row, now time.Time) {
	for i := range rows {
		r := &rows[i]
		driver.Seal(&r.Entry, c.head, now)
		c.head = r.Head()
		for j, k := range r.keys {
			k.pos++
			r.key[j], r.pos[j] = k.id, k.pos
		}
	}
}

// learn loads the keys of names, and inserts those that do not exist. The transaction has locked
// the head row.
func (c *chain) learn(ctx context.Context, tx querier, names []name) error {
	if err := c.load(ctx, tx, names); err != nil {
		return err
	}
	var users []name
	for _, n := range names {
		if n.kind == kindActor && c.keys[n] == nil && c.keys[n.user()] == nil {
			users = append(users, n.user())
		}
	}
	if err := c.load(ctx, tx, users); err != nil {
		return err
	}
	for _, n := range slices.Concat(users, names) { // actors after what they refer to
		if c.keys[n] == nil {
			if err := c.insertKey(ctx, tx, n); err != nil {
				return err
			}
		}
	}
	return nil
}

// loadSize is the number of names in one statement, always the same: PostgreSQL plans a list of
// unknown size as a large one and would read all keys.
const loadSize = 16

// load loads those keys of names that exist.
func (c *chain) load(ctx context.Context, tx querier, names []name) error {
	const query = `SELECT k.key, k.digest, COALESCE(CASE k.kind
			WHEN 1 THEN (SELECT e.category_pos FROM audit_entries e WHERE e.category = k.key ORDER BY e.id DESC LIMIT 1)
			WHEN 2 THEN (SELECT e.action_pos FROM audit_entries e WHERE e.action = k.key ORDER BY e.id DESC LIMIT 1)
			WHEN 3 THEN (SELECT e.actor_pos FROM audit_entries e WHERE e.actor = k.key ORDER BY e.id DESC LIMIT 1)
		END, k.floor) FROM audit_keys k WHERE k.tenant = $1
		AND k.digest IN ($2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)`
	for part := range slices.Chunk(names, loadSize) {
		args := []any{c.tenant}
		byDigest := make(map[string]name, loadSize)
		for i := range loadSize {
			n := part[min(i, len(part)-1)]
			digest := n.digest()
			byDigest[digest] = n
			args = append(args, digest)
		}
		err := forEach(ctx, tx, query, args, func(row *sql.Rows) error {
			var k key
			var digest string
			err := row.Scan(&k.id, &digest, &k.pos)
			c.keys[byDigest[digest]] = &k
			return err
		})
		if err != nil {
			return fmt.Errorf("load keys: %w", err)
		}
	}
	return nil
}

func (c *chain) insertKey(ctx context.Context, tx querier, n name) error {
	var category, user any
	text, userID := n.text, n.userID
	if n.kind == kindActor {
		category, user = c.keys[name{kind: kindCategory, text: n.category}].id, c.keys[n.user()].id
		text, userID = "", ""
	}
	k := &key{}
	err := scanRow(ctx, tx, `INSERT INTO audit_keys (tenant, kind, digest, category, owner, name, user_id, fold_name, fold_id)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) RETURNING key`,
		[]any{c.tenant, n.kind, n.digest(), category, user, text, userID, driver.Fold(text), driver.Fold(userID)}, &k.id)
	if err != nil {
		return fmt.Errorf("insert key: %w", err)
	}
	c.keys[n], c.made = k, true
	return nil
}

// Bounds of the cache.
const (
	maxChains = 1_000  // logs
	maxKeys   = 50_000 // keys of one log
)

// chainCache contains the chains that no writer has at the moment. The outcome of the caller's
// transaction is unknown, so a chain may be wrong: see chain.current.
type chainCache struct {
	mu   sync.Mutex // guards idle
	idle map[string]*chain
}

// take removes the chain of a tenant, or returns nil.
func (c *chainCache) take(tenantID string) *chain {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := c.idle[tenantID]
	delete(c.idle, tenantID)
	return found
}

// put returns a chain after its entries were inserted.
func (c *chainCache) put(tenantID string, used *chain) {
	if len(used.keys) > maxKeys {
		return
	}
	used.made = false
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.idle == nil || len(c.idle) >= maxChains {
		c.idle = map[string]*chain{}
	}
	c.idle[tenantID] = used
}
