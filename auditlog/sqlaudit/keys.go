package sqlaudit

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed93082962/agenthost/auditlog"
)

// Kinds of keys, as the database has them.
const (
	kindCategory = 1
	kindAction   = 2
	kindActor    = 3
	kindUser     = 4
)

// keyName is what a key stands for.
type keyName struct {
	kind     int
	category string // of an actor
	name     string // of a category, an action or a user
	userID   string // of a user
}

// owner is the user that an actor is.
func (n keyName) owner() keyName { return keyName{kind: kindUser, name: n.name, userID: n.userID} }

// namesOf is in the order of the columns of entries.
func namesOf(e auditlog.Entry) [3]keyName {
	return [3]keyName{
		{kind: kindCategory, name: e.Category},
		{kind: kindAction, name: e.Action},
		{kind: kindActor, category: e.Category, name: e.UserName, userID: e.UserID},
	}
}

// digest is short, so that it can be unique in any index.
func (n keyName) digest() string {
	b := []byte{byte(n.kind)} //nolint:gosec // one of four
	for _, s := range [...]string{n.category, n.name, n.userID} {
		b = binary.BigEndian.AppendUint32(b, uint32(len(s))) //nolint:gosec // texts of records are bounded
		b = append(b, s...)
	}
	sum := sha256.Sum256(b)
	return base64.RawURLEncoding.EncodeToString(sum[:24])
}

// key is the key of a name, and the position of the last entry that has it.
type key struct {
	id, pos int64

	draft, next int64 // the last draft that has the name, and the position where that leaves it
}

// chain is what a writer knows of one log, true as of head.
type chain struct {
	log
	keys map[keyName]*key
	byID map[int64]*key

	of     map[who][3]*key // found in keys before, as most are
	made   []keyName       // keys that this transaction inserted
	drafts int64
	rows   int     // of the last draft that was inserted, and how long its columns were
	widths [16]int // in bytes: the next one begins with room for as much
}

// who does what: all that the keys of an entry depend on.
type who struct{ action, userName, userID string }

func newChain(l log) *chain {
	return &chain{log: l, keys: map[keyName]*key{}, byID: map[int64]*key{}, of: map[who][3]*key{}}
}

func (c *chain) remember(n keyName, k *key) { c.keys[n], c.byID[k.id] = k, k }

// unlearn forgets keys that will not be there if the transaction is rolled back. Those who need them find them then.
func (c *chain) unlearn() {
	if len(c.made) == 0 {
		return
	}
	for _, n := range c.made {
		delete(c.byID, c.keys[n].id)
		delete(c.keys, n)
	}
	clear(c.of)
	c.made = nil
}

// How much a writer remembers.
const (
	maxGap    = 512    // entries of others to catch up with; beyond these it asks for positions again
	maxKeys   = 50_000 // keys of one log
	maxChains = 1_000  // logs
)

// catchUp brings the chain to the head that is locked now.
func (c *chain) catchUp(ctx context.Context, q querier, now log) error {
	gap := now.head.ID - c.head.ID
	if now.epoch != c.epoch || now.tenant != c.tenant || gap > maxGap || len(c.of) > maxKeys ||
		gap == 0 && !bytes.Equal(now.head.Hash, c.head.Hash) {
		*c = *newChain(now)
		return nil
	}
	old := c.head
	c.log = now
	if gap == 0 {
		return nil
	}
	// It begins with the entry where the chain ended, if that was ever written.
	rows, err := q.QueryContext(ctx, `SELECT id, hash, category, category_pos, action, action_pos, actor, actor_pos
		FROM audit_entries WHERE tenant = $1 AND id >= $2 ORDER BY id`, c.tenant, signed(old.ID))
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	goesOn := old.ID == 0
	for rows.Next() {
		var id int64
		var hash []byte
		var ids, positions [3]int64
		if err := rows.Scan(&id, &hash, &ids[0], &positions[0], &ids[1], &positions[1], &ids[2], &positions[2]); err != nil {
			return err
		}
		if id == signed(old.ID) {
			goesOn = bytes.Equal(hash, old.Hash)
			continue
		}
		for i, id := range ids {
			if k := c.byID[id]; k != nil {
				k.pos = positions[i]
			}
		}
	}
	if !goesOn {
		*c = *newChain(now)
	}
	return errors.Join(rows.Err(), rows.Close())
}

// learn finds the keys of the names, or makes them, with the head locked.
func (c *chain) learn(ctx context.Context, q querier, d dialect, missing []keyName) error {
	for _, n := range missing {
		if n.kind == kindActor && c.keys[n.owner()] == nil && !slices.Contains(missing, n.owner()) {
			missing = append(missing, n.owner())
		}
	}
	digests := make([]string, len(missing))
	byDigest := make(map[string]keyName, len(missing))
	for i, n := range missing {
		digests[i] = n.digest()
		byDigest[digests[i]] = n
	}
	in, args := d.digests(digests)
	rows, err := q.QueryContext(ctx, `SELECT k.key, k.digest, COALESCE(CASE k.kind
			WHEN 1 THEN (SELECT e.category_pos FROM audit_entries e WHERE e.category = k.key ORDER BY e.id DESC LIMIT 1)
			WHEN 2 THEN (SELECT e.action_pos FROM audit_entries e WHERE e.action = k.key ORDER BY e.id DESC LIMIT 1)
			WHEN 3 THEN (SELECT e.actor_pos FROM audit_entries e WHERE e.actor = k.key ORDER BY e.id DESC LIMIT 1)
		END, k.floor) FROM audit_keys k WHERE k.tenant = $1 AND k.digest IN `+in, append([]any{c.tenant}, args...)...)
	if err != nil {
		return err
	}
	if err := c.scanKeys(rows, byDigest); err != nil {
		return err
	}
	byKind := [...]int{kindCategory, kindAction, kindUser, kindActor} // actors last, which name two others
	for _, kind := range byKind {
		var absent []string
		for i, n := range missing {
			if n.kind == kind && c.keys[n] == nil {
				absent = append(absent, digests[i])
			}
		}
		for part := range slices.Chunk(absent, 32) {
			if err := c.makeKeys(ctx, q, part, byDigest); err != nil {
				return err
			}
		}
	}
	return nil
}

// digests is a list from the second parameter on. PostgreSQL takes a set whose size it does not know for large, and would
// read all keys for the four that a single entry has.
func (d dialect) digests(all []string) (in string, args []any) {
	const few = 8
	if len(all) > few {
		list, err := json.Marshal(all)
		if err != nil {
			panic(err) // strings
		}
		return fmt.Sprintf(d.texts, "$2"), []any{string(list)}
	}
	for i := range few {
		args = append(args, all[min(i, len(all)-1)])
	}
	return "($2, $3, $4, $5, $6, $7, $8, $9)", args
}

func (c *chain) scanKeys(rows *sql.Rows, byDigest map[string]keyName) (err error) {
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var k key
		var digest string
		if err := rows.Scan(&k.id, &digest, &k.pos); err != nil {
			return err
		}
		c.remember(byDigest[digest], &k)
	}
	return rows.Err()
}

func (c *chain) makeKeys(ctx context.Context, q querier, digests []string, byDigest map[string]keyName) error {
	var query strings.Builder
	query.WriteString("INSERT INTO audit_keys (tenant, kind, digest, category, owner, name, user_id, fold_name, fold_id) VALUES ")
	args := make([]any, 0, 9*len(digests))
	for i, digest := range digests {
		if i > 0 {
			query.WriteString(", ")
		}
		p := len(args)
		fmt.Fprintf(&query, "($%d, $%d, $%d, $%d, $%d, $%d, $%d, $%d, $%d)", p+1, p+2, p+3, p+4, p+5, p+6, p+7, p+8, p+9)
		n := byDigest[digest]
		args = append(args, c.tenant, n.kind, digest)
		if n.kind == kindActor {
			args = append(args, c.keys[keyName{kind: kindCategory, name: n.category}].id, c.keys[n.owner()].id, "", "", "", "")
		} else {
			args = append(args, nil, nil, n.name, n.userID, auditlog.Fold(n.name), auditlog.Fold(n.userID))
		}
	}
	query.WriteString(" RETURNING key, digest, 0")
	rows, err := q.QueryContext(ctx, query.String(), args...)
	if err != nil {
		return err
	}
	if err := c.scanKeys(rows, byDigest); err != nil {
		return err
	}
	for _, digest := range digests {
		if c.keys[byDigest[digest]] == nil {
			return fmt.Errorf("insert keys: none came back for %q", byDigest[digest].name)
		}
		c.made = append(c.made, byDigest[digest])
	}
	return nil
}
