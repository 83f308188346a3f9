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
	"github.com/seed93082962/agenthost/internal/leaf/auditstore"
)

// Kinds of keys in the table audit_keys. A former version had a kind 3.
const (
	kindCategory = 1
	kindAction   = 2
	kindUser     = 4
)

// name is the meaning of a key.
type name struct {
	kind   int
	text   string // the category, the action, or the name of a user
	userID string // of a user
}

// namesOf returns the names of an entry in the order of their columns.
func namesOf(e *auditlog.Entry) [3]name {
	return [3]name{
		{kind: kindCategory, text: e.Category},
		{kind: kindAction, text: e.Action},
		{kind: kindUser, text: e.UserName, userID: e.UserID},
	}
}

// digest identifies the name within its tenant. It is short enough for any index.
func (n name) digest() string {
	b := []byte{byte(n.kind), 0, 0, 0, 0} // kind 3 had one more text
	for _, s := range [...]string{n.text, n.userID} {
		b = binary.BigEndian.AppendUint32(b, uint32(len(s)))
		b = append(b, s...)
	}

	sum := sha256.Sum256(b)
	return base64.RawURLEncoding.EncodeToString(sum[:24])
}

// row is an entry with the keys of its category, its action and its user, and its position within
// the first two. The position within its user is not stored.
type row struct {
	auditlog.Entry
	key, pos [3]int64
}

// key is a row of audit_keys with the position of its last entry, unless it is a user.
type key struct{ id, pos int64 }

// keysOf returns the keys of the names of entries, and inserts those that do not exist. The
// transaction has locked the log.
func keysOf(ctx context.Context, tx querier, tenant int64, entries []auditlog.Entry) (map[name]*key, error) {
	keys := map[name]*key{}
	var names []name
	for i := range entries {
		for _, n := range namesOf(&entries[i]) {
			if keys[n] == nil {
				keys[n] = &key{}
				names = append(names, n)
			}
		}
	}

	for part := range slices.Chunk(names, loadSize) {
		if err := loadKeys(ctx, tx, tenant, part, keys); err != nil {
			return nil, fmt.Errorf("load keys: %w", err)
		}
	}

	for _, n := range names {
		if keys[n].id != 0 {
			continue
		}

		err := scanRow(ctx, tx, `INSERT INTO audit_keys (tenant, kind, digest, name, user_id, fold_name, fold_id)
			VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING key`,
			[]any{tenant, n.kind, n.digest(), n.text, n.userID, auditstore.Fold(n.text), auditstore.Fold(n.userID)}, &keys[n].id)
		if err != nil {
			return nil, fmt.Errorf("insert key: %w", err)
		}
	}

	return keys, nil
}

// loadSize is the number of names in one statement, always the same: PostgreSQL plans a list of
// unknown size as a large one and would read all keys.
const loadSize = 16

// loadKeys loads those keys of at most loadSize names that exist.
func loadKeys(ctx context.Context, tx querier, tenant int64, names []name, keys map[name]*key) error {
	const query = `SELECT k.key, k.digest, COALESCE(CASE k.kind
			WHEN 1 THEN (SELECT e.category_pos FROM audit_entries e WHERE e.category = k.key ORDER BY e.id DESC LIMIT 1)
			WHEN 2 THEN (SELECT e.action_pos FROM audit_entries e WHERE e.action = k.key ORDER BY e.id DESC LIMIT 1)
		END, k.floor) FROM audit_keys k WHERE k.tenant = $1
		AND k.digest IN ($2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)`
	args := []any{tenant}
	byDigest := make(map[string]*key, loadSize)
	for i := range loadSize {
		n := names[min(i, len(names)-1)]
		digest := n.digest()
		byDigest[digest] = keys[n]
		args = append(args, digest)
	}

	return forEach(ctx, tx, query, args, func(row *sql.Rows) error {
		var found key
		var digest string
		if err := row.Scan(&found.id, &digest, &found.pos); err != nil {
			return err
		}

		*byDigest[digest] = found
		return nil
	})
}
