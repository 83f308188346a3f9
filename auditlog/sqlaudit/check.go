package sqlaudit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/seed93082962/agenthost/auditlog"
)

// checker fills in names as the database has them now, and compares what stands beside entries, which no hash covers, with
// what it must be.
type checker struct {
	store    *Store
	tenant   int64
	tenantID string
	seen     map[int64]seen
}

// seen is a key with the position of its last entry so far.
type seen struct {
	stored
	sound bool
	pos   int64
}

// stored is a key as it is found, with that of its category and of its user where it is an actor.
type stored struct {
	storedKey
	category          int64
	floor             int64
	ofCategory, owner storedKey
}

type storedKey struct {
	tenant                         int64
	kind                           int
	digest                         string
	name, userID, foldName, foldID string
}

// whole fills in names, and leaves out what was pruned since it was read where something looks wrong.
func (c *checker) whole(ctx context.Context, rows []row) ([]row, error) {
	sound, err := c.fill(ctx, rows)
	if err != nil || sound {
		return rows, err
	}
	return c.store.left(ctx, c.tenantID, rows)
}

func (c *checker) fill(ctx context.Context, rows []row) (sound bool, err error) {
	if err := c.learn(ctx, rows); err != nil {
		return false, err
	}
	sound = true
	keys := make(map[int64]name, 3)
	for i := range rows {
		r := &rows[i]
		clear(keys)
		fits := true
		for j, k := range r.key {
			known := c.seen[k]
			keys[k] = known.shown()
			fits = fits && r.pos[j] == known.pos+1 && known.kind == j+1 && known.sound
			known.pos = r.pos[j]
			c.seen[k] = known
		}
		r.named(c.tenantID, keys)
		if !fits || c.seen[r.key[2]].category != r.key[0] {
			r.Hash, sound = nil, false
		}
	}
	return sound, nil
}

// learn asks for the keys that were not seen before. Theirs must be the first entries that are left.
func (c *checker) learn(ctx context.Context, rows []row) error {
	fresh := map[int64]bool{}
	for i := range rows {
		for _, k := range rows[i].key {
			if _, ok := c.seen[k]; !ok {
				fresh[k] = true
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
	return c.keys(ctx, "k.key IN "+fmt.Sprintf(c.store.sql.set, "$1"), set(keys), func(key int64, k stored) {
		c.seen[key] = seen{stored: k, sound: k.soundIn(c.tenant), pos: k.floor}
	})
}

// keys reads keys with what they refer to.
func (c *checker) keys(ctx context.Context, where string, arg any, each func(int64, stored)) (err error) {
	const columns = `, COALESCE($k.tenant, 0), COALESCE($k.kind, 0), COALESCE($k.digest, ''), COALESCE($k.name, ''),
		COALESCE($k.user_id, ''), COALESCE($k.fold_name, ''), COALESCE($k.fold_id, '')`
	rows, err := c.store.read.query(ctx, "SELECT k.key, COALESCE(k.category, 0), k.floor"+strings.ReplaceAll(columns, "$k", "k")+
		strings.ReplaceAll(columns, "$k", "c")+strings.ReplaceAll(columns, "$k", "u")+` FROM audit_keys k
		LEFT JOIN audit_keys c ON c.key = k.category LEFT JOIN audit_keys u ON u.key = k.owner WHERE `+where, arg)
	if err != nil {
		return fmt.Errorf("read keys: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var key int64
		var k stored
		into := []any{&key, &k.category, &k.floor}
		for _, s := range []*storedKey{&k.storedKey, &k.ofCategory, &k.owner} {
			into = append(into, &s.tenant, &s.kind, &s.digest, &s.name, &s.userID, &s.foldName, &s.foldID)
		}
		if err := rows.Scan(into...); err != nil {
			return fmt.Errorf("read keys: %w", err)
		}
		each(key, k)
	}
	return rows.Err()
}

// shown is what readers make of the key.
func (k stored) shown() name {
	if k.owner.kind != 0 {
		return name{kind: k.kind, name: k.owner.name, userID: k.owner.userID}
	}
	return name{kind: k.kind, name: k.name, userID: k.userID}
}

// soundIn tells that whoever looks for the name of the key in the tenant's log finds this key, and nobody else does.
func (k stored) soundIn(tenant int64) bool {
	if k.kind != kindActor {
		return k.is(tenant, keyName{kind: k.kind, name: k.name, userID: k.userID}) && k.floor >= 0
	}
	n := keyName{kind: kindActor, category: k.ofCategory.name, name: k.owner.name, userID: k.owner.userID}
	return k.is(tenant, n) && k.floor >= 0 && k.owner.is(tenant, n.owner()) &&
		k.ofCategory.is(tenant, keyName{kind: kindCategory, name: n.category})
}

func (k storedKey) is(tenant int64, n keyName) bool {
	return k.tenant == tenant && k.kind == n.kind && k.digest == n.digest() &&
		(n.kind != kindUser || k.foldName == auditlog.Fold(n.name) && k.foldID == auditlog.Fold(n.userID))
}

// rest checks what belongs to no entry that was seen. Each statement holds by itself, whatever is appended or pruned
// meanwhile, because it sees one moment.
func (c *checker) rest(ctx context.Context) error {
	var head, floor int64
	var below sql.NullInt64
	var above bool
	err := c.store.read.row(ctx, `SELECT h.id, h.floor_id, (SELECT MIN(e.id) FROM audit_entries e WHERE e.tenant = h.tenant AND e.id <= h.floor_id),
		EXISTS (SELECT 1 FROM audit_entries e WHERE e.tenant = h.tenant AND e.id > h.id) FROM audit_heads h WHERE h.tenant = $1`,
		[]any{c.tenant}, &head, &floor, &below, &above)
	switch {
	case err != nil:
		return fmt.Errorf("look beyond the log: %w", err)
	case below.Valid:
		return c.damaged(max(below.Int64, 1))
	case above:
		return c.damaged(head + 1)
	}
	bad := false
	err = c.keys(ctx, "k.tenant = $1", c.tenant, func(_ int64, k stored) { bad = bad || !k.soundIn(c.tenant) })
	if err != nil {
		return err
	}
	for _, column := range [...]string{"category", "action", "actor"} {
		if bad {
			break
		}
		if bad, err = c.uncounted(ctx, column); err != nil {
			return err
		}
	}
	if bad {
		return c.damagedNext(ctx)
	}
	return nil
}

// uncounted tells whether keys have entries that their positions do not count, which are in no log then, or in another's; or
// whether more was pruned of them than of the log.
func (c *checker) uncounted(ctx context.Context, column string) (bad bool, err error) {
	kind := map[string]int{"category": kindCategory, "action": kindAction, "actor": kindActor}[column]
	const last = "FROM audit_entries e WHERE e.$c = k.key ORDER BY e.id DESC LIMIT 1"
	query := `SELECT EXISTS (SELECT 1 FROM audit_keys k WHERE k.tenant = $1 AND k.kind = $2 AND (
			k.floor + (SELECT COUNT(*) FROM audit_entries e WHERE e.$c = k.key) <> COALESCE((SELECT e.$c_pos ` + last + `), k.floor)
			OR (SELECT e.tenant ` + last + `) <> k.tenant))`
	// Actors are forgotten when nothing is left of them, and what was pruned of them is too.
	query += ` OR COALESCE((SELECT SUM(k.floor) FROM audit_keys k WHERE k.tenant = $1 AND k.kind = $2), 0) > h.floor_id FROM audit_heads h
		WHERE h.tenant = $1`
	if kind != kindActor {
		query = strings.Replace(query, "> h.floor_id", "<> h.floor_id", 1)
	}
	if err := c.store.read.row(ctx, strings.ReplaceAll(query, "$c", column), []any{c.tenant, kind}, &bad); err != nil {
		return false, fmt.Errorf("count entries by %s: %w", column, err)
	}
	return bad, nil
}

// damagedNext is for what would make the next entries go wrong.
func (c *checker) damagedNext(ctx context.Context) error {
	l, err := c.store.log(ctx, c.tenantID)
	if err != nil {
		return err
	}
	return c.damaged(signed(l.head.ID) + 1)
}

func (c *checker) damaged(id int64) error {
	return &auditlog.DamagedError{TenantID: c.tenantID, ID: unsigned(id)}
}
