package sqlaudit

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/auditlog/driver"
)

// Kinds of keys in the table audit_keys.
const (
	kindCategory = 1
	kindAction   = 2
	kindActor    = 3
	kindUser     = 4
)

// name is the meaning of a key. An actor is a user within one category.
type name struct {
	kind     int
	category string // of an actor
	text     string // the category, the action, or the name of a user
	userID   string // of a user or an actor
}

// user returns the user of an actor.
func (n name) user() name { return name{kind: kindUser, text: n.text, userID: n.userID} }

// namesOf returns the names of an entry in the order of their columns.
func namesOf(e *auditlog.Entry) [3]name {
	return [3]name{
		{kind: kindCategory, text: e.Category},
		{kind: kindAction, text: e.Action},
		{kind: kindActor, category: e.Category, text: e.UserName, userID: e.UserID},
	}
}

// digest identifies the name within its tenant. It is short enough for any index.
func (n name) digest() string {
	b := []byte{byte(n.kind)}
	for _, s := range [...]string{n.category, n.text, n.userID} {
		b = binary.BigEndian.AppendUint32(b, uint32(len(s)))
		b = append(b, s...)
	}
	sum := sha256.Sum256(b)
	return base64.RawURLEncoding.EncodeToString(sum[:24])
}

// row is an entry with its keys, and its position within each of them: category, action, actor.
type row struct {
	auditlog.Entry
	key, pos [3]int64
}

// keys are rows of audit_keys by their names.
type keys map[name]*key

// key is a row of audit_keys with the position of its last entry.
type key struct{ id, pos int64 }

// keysOf returns the keys of the names of entries, and inserts those that do not exist. The
// transaction has locked the log.
func keysOf(ctx context.Context, tx querier, tenant int64, entries []auditlog.Entry) (keys, error) {
	var names []name
	seen := map[name]bool{}
	for i := range entries {
		own := namesOf(&entries[i])
		for _, n := range []name{own[0], own[1], own[2].user(), own[2]} { // an actor after the keys that it refers to
			if !seen[n] {
				seen[n] = true
				names = append(names, n)
			}
		}
	}
	k := keys{}
	if err := k.load(ctx, tx, tenant, names); err != nil {
		return nil, err
	}
	for _, n := range names {
		if k[n] == nil {
			if err := k.insert(ctx, tx, tenant, n); err != nil {
				return nil, err
			}
		}
	}
	return k, nil
}

// loadSize is the number of names in one statement, always the same: PostgreSQL plans a list of
// unknown size as a large one and would read all keys.
const loadSize = 16

// load loads those keys of names that exist.
func (k keys) load(ctx context.Context, tx querier, tenant int64, names []name) error {
	const query = `SELECT k.key, k.digest, COALESCE(CASE k.kind
			WHEN 1 THEN (SELECT e.category_pos FROM audit_entries e WHERE e.category = k.key ORDER BY e.id DESC LIMIT 1)
			WHEN 2 THEN (SELECT e.action_pos FROM audit_entries e WHERE e.action = k.key ORDER BY e.id DESC LIMIT 1)
			WHEN 3 THEN (SELECT e.actor_pos FROM audit_entries e WHERE e.actor = k.key ORDER BY e.id DESC LIMIT 1)
		END, k.floor) FROM audit_keys k WHERE k.tenant = $1
		AND k.digest IN ($2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)`
	for part := range slices.Chunk(names, loadSize) {
		args := []any{tenant}
		byDigest := make(map[string]name, loadSize)
		for i := range loadSize {
			n := part[min(i, len(part)-1)]
			digest := n.digest()
			byDigest[digest] = n
			args = append(args, digest)
		}
		err := forEach(ctx, tx, query, args, func(row *sql.Rows) error {
			found := &key{}
			var digest string
			err := row.Scan(&found.id, &digest, &found.pos)
			k[byDigest[digest]] = found
			return err
		})
		if err != nil {
			return fmt.Errorf("load keys: %w", err)
		}
	}
	return nil
}

// insert inserts the key of a name. An actor refers to keys that exist.
func (k keys) insert(ctx context.Context, tx querier, tenant int64, n name) error {
	var category, user any
	text := n.text
	userID := n.userID
	if n.kind == kindActor {
		category = k[name{kind: kindCategory, text: n.category}].id
		user = k[n.user()].id
		text = ""
		userID = ""
	}
	made := &key{}
	err := scanRow(ctx, tx, `INSERT INTO audit_keys (tenant, kind, digest, category, owner, name, user_id, fold_name, fold_id)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) RETURNING key`,
		[]any{tenant, n.kind, n.digest(), category, user, text, userID, driver.Fold(text), driver.Fold(userID)}, &made.id)
	if err != nil {
		return fmt.Errorf("insert key: %w", err)
	}
	k[n] = made
	return nil
}
