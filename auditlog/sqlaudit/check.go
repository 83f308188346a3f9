package sqlaudit

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/internal/leaf/auditstore"
)

// checker verifies the data about entries that no hash covers: keys, positions, and the texts for
// the search of users.
type checker struct {
	store    *Store
	tenantID string
	seen     map[int64]*storedKey
	pruned   bool // unread entries were pruned, so that positions cannot be compared
}

func newChecker(s *Store, tenantID string) *checker {
	return &checker{store: s, tenantID: tenantID, seen: map[int64]*storedKey{}}
}

// storedKey is a row of audit_keys.
type storedKey struct {
	key, tenant, floor int64
	name
	digest, foldName, foldID string

	pos int64 // of its last entry so far
}

// check verifies entries by the current rows of the database. An entry that an index would return
// in the wrong place loses its hash, so that it fails its verification.
func (c *checker) check(ctx context.Context, tx querier, after int64, rows []row) error {
	l, err := c.store.log(ctx, tx, c.tenantID)
	if err != nil {
		return err
	}

	if c.pruned = c.pruned || signed(l.floor.ID) > after; c.pruned || len(rows) == 0 {
		return nil
	}

	if err := c.load(ctx, tx, l.tenant, after, signed(rows[len(rows)-1].ID)); err != nil {
		return err
	}

	for i := range rows {
		r := &rows[i]
		for j, kind := range [...]int{kindCategory, kindAction, kindUser} {
			k := c.seen[r.key[j]]
			if k == nil || k.kind != kind || !k.intactIn(l.tenant) || kind != kindUser && r.pos[j] != k.pos+1 {
				r.Hash = nil
			}

			if k != nil {
				k.pos = r.pos[j]
			}
		}
	}

	return nil
}

// load reads those keys of entries that were not seen before. The entries must be the oldest
// remaining ones of these keys.
func (c *checker) load(ctx context.Context, tx querier, tenant, after, last int64) error {
	const of = " FROM audit_entries e WHERE e.tenant = $1 AND e.id > $2 AND e.id <= $3"
	where := "k.key IN (SELECT e.category" + of + " UNION SELECT e.action" + of + " UNION SELECT e.user_key" + of + ")"
	return readKeys(ctx, tx, where, []any{tenant, after, last}, func(k storedKey) {
		if c.seen[k.key] == nil {
			c.seen[k.key] = &k
		}
	})
}

func readKeys(ctx context.Context, tx querier, where string, args []any, each func(storedKey)) error {
	const query = `SELECT k.key, k.tenant, k.floor, k.kind, k.name, k.user_id, k.digest, k.fold_name, k.fold_id FROM audit_keys k WHERE `
	err := forEach(ctx, tx, query+where, args, func(row *sql.Rows) error {
		var k storedKey
		err := row.Scan(&k.key, &k.tenant, &k.floor, &k.kind, &k.text, &k.userID, &k.digest, &k.foldName, &k.foldID)
		k.pos = k.floor
		each(k)
		return err
	})
	if err != nil {
		return fmt.Errorf("read keys: %w", err)
	}

	return nil
}

// intactIn reports whether a search for the name of the key in the tenant's log finds this key and
// no other.
func (k *storedKey) intactIn(tenant int64) bool {
	return k.tenant == tenant && k.floor >= 0 && k.digest == k.name.digest() &&
		(k.kind != kindUser || k.foldName == auditstore.Fold(k.text) && k.foldID == auditstore.Fold(k.userID))
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
	err = readKeys(ctx, tx, "k.tenant = $1", []any{l.tenant}, func(k storedKey) { bad = bad || !k.intactIn(l.tenant) })
	for kind, column := range map[int]string{kindCategory: "category", kindAction: "action"} {
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
func uncounted(ctx context.Context, tx querier, tenant int64, kind int, column string) (bool, error) {
	const last = "FROM audit_entries e WHERE e.$c = k.key ORDER BY e.id DESC LIMIT 1"
	query := `SELECT EXISTS (SELECT 1 FROM audit_keys k WHERE k.tenant = $1 AND k.kind = $2 AND (
			k.floor + (SELECT COUNT(*) FROM audit_entries e WHERE e.$c = k.key) <> COALESCE((SELECT e.$c_pos ` + last + `), k.floor)
			OR (SELECT e.tenant ` + last + `) <> k.tenant))
		OR COALESCE((SELECT SUM(k.floor) FROM audit_keys k WHERE k.tenant = $1 AND k.kind = $2), 0) <> h.floor_id
		FROM audit_heads h WHERE h.tenant = $1`
	var bad bool
	if err := scanRow(ctx, tx, strings.ReplaceAll(query, "$c", column), []any{tenant, kind}, &bad); err != nil {
		return false, fmt.Errorf("count entries by %s: %w", column, err)
	}

	return bad, nil
}
