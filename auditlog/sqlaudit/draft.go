package sqlaudit

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/seed93082962/agenthost/auditlog"
)

// draft is entries ready to be inserted behind the head of a chain, which learns of them when they are committed. A chain
// has one draft at a time.
type draft struct {
	chain *chain
	head  auditlog.Head // after these
	rows  []row
	keys  []*key // those whose position changes
}

// row is an entry with what stands beside it: key and position in its category, of its action, of its actor.
type row struct {
	auditlog.Entry
	key, pos [3]int64
}

// draft seals records of one tenant. It gives nil and the names that are missing where the chain does not know them all.
func (c *chain) draft(records []auditlog.Record, now time.Time) (*draft, []keyName, error) {
	d := &draft{chain: c, head: c.head, rows: make([]row, len(records))}
	c.drafts++
	missing := map[keyName]bool{}
	for i, r := range records {
		e, err := r.Seal(d.head, now)
		if err != nil {
			return nil, nil, err
		}
		d.rows[i].Entry, d.head = e, e.Head()
		keys, ok := c.of[who{e.Action, e.UserName, e.UserID}]
		if !ok {
			if keys, ok = c.find(e, missing); !ok {
				continue
			}
		}
		for j, k := range keys {
			if k.draft != c.drafts {
				k.draft, k.next = c.drafts, k.pos
				d.keys = append(d.keys, k)
			}
			k.next++
			d.rows[i].key[j], d.rows[i].pos[j] = k.id, k.next
		}
	}
	if len(missing) > 0 {
		return nil, slices.Collect(maps.Keys(missing)), nil
	}
	return d, nil, nil
}

// find looks the keys of an entry up one by one, and notes those that are missing.
func (c *chain) find(e auditlog.Entry, missing map[keyName]bool) (keys [3]*key, ok bool) {
	ok = true
	for j, n := range namesOf(e) {
		if keys[j] = c.keys[n]; keys[j] == nil {
			missing[n] = true
			ok = false
		}
	}
	if ok {
		c.of[who{e.Action, e.UserName, e.UserID}] = keys
	}
	return keys, ok
}

// committed moves the chain to where the draft leaves the log.
func (d *draft) committed() {
	d.chain.head = d.head
	for _, k := range d.keys {
		k.pos = k.next
	}
}

// lock takes the head row of a tenant, and makes it if there is none. Until the transaction ends nobody else appends.
func (s *Store) lock(ctx context.Context, q querier, tenantID string) (log, error) {
	for range 2 {
		rows, err := q.QueryContext(ctx, s.sql.lock, tenantID)
		if err != nil {
			return log{}, fmt.Errorf("lock log: %w", err)
		}
		l, err := scanLog(rows)
		if err != nil {
			return log{}, fmt.Errorf("lock log: %w", err)
		}
		if l.tenant != 0 {
			return l, nil
		}
		if _, err := q.ExecContext(ctx, "INSERT INTO audit_heads (name) VALUES ($1) ON CONFLICT (name) DO NOTHING", tenantID); err != nil {
			return log{}, fmt.Errorf("begin log: %w", err)
		}
	}
	return log{}, fmt.Errorf("begin log of %q: its row is not there", tenantID)
}

// piece is how many entries one statement inserts at most.
const piece = 2048

// appendTo writes the records behind the log's head, which it locks until the transaction ends. Whatever becomes of that,
// the chain takes it for committed: it is to be thrown away if it was not.
func (s *Store) appendTo(ctx context.Context, q querier, c *chain, tenantID string, records []auditlog.Record) error {
	l, err := s.lock(ctx, q, tenantID)
	if err != nil {
		return err
	}
	if err := c.catchUp(ctx, q, l); err != nil {
		return fmt.Errorf("read end of log: %w", err)
	}
	now := s.now()
	for part := range slices.Chunk(records, piece) {
		d, missing, err := c.draft(part, now)
		if err == nil && missing != nil {
			if err := c.learn(ctx, q, s.sql, missing); err != nil {
				return fmt.Errorf("read keys: %w", err)
			}
			d, _, err = c.draft(part, now)
		}
		if err != nil {
			return err
		}
		if err := s.sql.insert(ctx, q, d); err != nil {
			return err
		}
		d.committed()
	}
	return nil
}
