package sqlaudit

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/auditlog/driver"
)

// checker verifies the data about entries that no hash covers: keys, positions, and the texts for
// the search of users.
type checker struct {
	store    *Store
	tenantID string
	seen     map[int64]*seenKey
	pruned   bool // unread entries were pruned, so that positions cannot be compared
}

func newChecker(s *Store, tenantID string) *checker {
	return &checker{store: s, tenantID: tenantID, seen: map[int64]*seenKey{}}
}

// seenKey is a key with the position of its last entry so far.
type seenKey struct {
	storedKey
	intact bool
	pos    int64
}

// storedKey is a key as it is stored, with its category and its user if it is an actor.
type storedKey struct {
	keyRow
	categoryKey, floor int64
	category, user     keyRow
}

type keyRow struct {
	tenant                         int64
	kind                           int
	digest                         string
	name, userID, foldName, foldID string
}

// check verifies entries by the current rows of the database. An entry that an index would return
// in the wrong place loses its hash, so that it fails its verification.
func (c *checker) check(ctx context.Context, tx querier, after int64, rows []row) error {
	l, err := c.store.log(ctx, tx, c.tenantID)
	if err != nil {
		return err
	}
	if c.pruned = c.pruned || signed(l.floor.ID) > after; c.pruned {
		return nil
	}
	if err := c.load(ctx, tx, l.tenant, rows); err != nil {
		return err
	}
	for i := range rows {
		r := &rows[i]
		intact := true
		for j, k := range r.key {
			s := c.seen[k]
			intact = intact && s.intact && s.kind == j+1 && r.pos[j] == s.pos+1
			s.pos = r.pos[j]
		}
		if !intact || c.seen[r.key[2]].categoryKey != r.key[0] {
			r.Hash = nil
		}
	}
	return nil
}

// load reads the keys that were not seen before. The entries must be the oldest remaining ones of
// these keys.
func (c *checker) load(ctx context.Context, tx querier, tenant int64, rows []row) error {
	var keys []int64
	for i := range rows {
		for _, k := range rows[i].key {
			if c.seen[k] == nil {
				c.seen[k] = &seenKey{}
				keys = append(keys, k)
			}
		}
	}
	if len(keys) == 0 {
		return nil
	}
	where := "k.key IN " + fmt.Sprintf(c.store.engine.set, "$1")
	return readKeys(ctx, tx, where, jsonSet(keys), func(key int64, k storedKey) {
		c.seen[key] = &seenKey{storedKey: k, intact: k.intactIn(tenant), pos: k.floor}
	})
}

func readKeys(ctx context.Context, tx querier, where string, arg any, each func(int64, storedKey)) error {
	const columns = `, COALESCE($k.tenant, 0), COALESCE($k.kind, 0), COALESCE($k.digest, ''), COALESCE($k.name, ''),
		COALESCE($k.user_id, ''), COALESCE($k.fold_name, ''), COALESCE($k.fold_id, '')`
	query := "SELECT k.key, COALESCE(k.category, 0), k.floor" + strings.ReplaceAll(columns, "$k", "k") +
		strings.ReplaceAll(columns, "$k", "c") + strings.ReplaceAll(columns, "$k", "u") + ` FROM audit_keys k
		LEFT JOIN audit_keys c ON c.key = k.category LEFT JOIN audit_keys u ON u.key = k.owner WHERE ` + where
	err := forEach(ctx, tx, query, []any{arg}, func(row *sql.Rows) error {
		var key int64
		var k storedKey
		dest := []any{&key, &k.categoryKey, &k.floor}
		for _, r := range []*keyRow{&k.keyRow, &k.category, &k.user} {
			dest = append(dest, &r.tenant, &r.kind, &r.digest, &r.name, &r.userID, &r.foldName, &r.foldID)
		}
		err := row.Scan(dest...)
		each(key, k)
		return err
	})
	if err != nil {
		return fmt.Errorf("read keys: %w", err)
	}
	return nil
}

// intactIn reports whether a search for the name of the key in the tenant's log finds this key and
// no other.
func (k storedKey) intactIn(tenant int64) bool {
	if k.kind != kindActor {
		return k.floor >= 0 && k.is(tenant, name{kind: k.kind, text: k.name, userID: k.userID})
	}
	n := name{kind: kindActor, category: k.category.name, text: k.user.name, userID: k.user.userID}
	return k.floor >= 0 && k.is(tenant, n) && k.user.is(tenant, n.user()) &&
		k.category.is(tenant, name{kind: kindCategory, text: n.category})
}

func (k keyRow) is(tenant int64, n name) bool {
	return k.tenant == tenant && k.kind == n.kind && k.digest == n.digest() &&
		(n.kind != kindUser || k.foldName == driver.Fold(n.text) && k.foldID == driver.Fold(n.userID))
}

// rest checks the data that belongs to no entry of the log.
func (c *checker) rest(ctx context.Context, tx querier) error {
	l, err := c.store.log(ctx, tx, c.tenantID)
	if err != nil || l.tenant == 0 {
		return err
	}
	var below sql.NullInt64
	var above bool
	err = scanRow(ctx, tx, `SELECT (SELECT MIN(e.id) FROM audit_entries e WHERE e.tenant = $1 AND e.id <= $2),
		EXISTS (SELECT 1 FROM audit_entries e WHERE e.tenant = $1 AND e.id > $3)`,
		[]any{l.tenant, signed(l.floor.ID), signed(l.head.ID)}, &below, &above)
	if err != nil {
		return fmt.Errorf("read entries outside of the log: %w", err)
	}
	damaged := &auditlog.DamagedError{TenantID: c.tenantID, ID: l.head.ID + 1}
	if below.Valid {
		damaged.ID = unsigned(max(below.Int64, 1))
	}
	bad := below.Valid || above
	err = readKeys(ctx, tx, "k.tenant = $1", l.tenant, func(_ int64, k storedKey) { bad = bad || !k.intactIn(l.tenant) })
	for kind, column := range map[int]string{kindCategory: "category", kindAction: "action", kindActor: "actor"} {
		if err == nil && !bad {
			bad, err = uncounted(ctx, tx, l.tenant, kind, column)
		}
	}
	if err == nil && bad {
		return damaged
	}
	return err
}

// uncounted reports whether keys of the log have entries that their positions do not count, or
// entries of another log, or whether more entries were pruned of them than of the log.
func uncounted(ctx context.Context, tx querier, tenant int64, kind int, column string) (bad bool, err error) {
	const last = "FROM audit_entries e WHERE e.$c = k.key ORDER BY e.id DESC LIMIT 1"
	pruned := "<> h.floor_id"
	if kind == kindActor { // actors without entries are deleted, with their floors
		pruned = "> h.floor_id"
	}
	query := `SELECT EXISTS (SELECT 1 FROM audit_keys k WHERE k.tenant = $1 AND k.kind = $2 AND (
			k.floor + (SELECT COUNT(*) FROM audit_entries e WHERE e.$c = k.key) <> COALESCE((SELECT e.$c_pos ` + last + `), k.floor)
			OR (SELECT e.tenant ` + last + `) <> k.tenant))
		OR COALESCE((SELECT SUM(k.floor) FROM audit_keys k WHERE k.tenant = $1 AND k.kind = $2), 0) ` + pruned + `
		FROM audit_heads h WHERE h.tenant = $1`
	if err := scanRow(ctx, tx, strings.ReplaceAll(query, "$c", column), []any{tenant, kind}, &bad); err != nil {
		return false, fmt.Errorf("count entries by %s: %w", column, err)
	}
	return bad, nil
}
