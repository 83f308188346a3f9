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
// has one draft at a time: to begin another drops it.
type draft struct {
	chain   *chain
	from    auditlog.Head // before these
	head    auditlog.Head // after these
	rows    []row
	columns *columns         // of these rows, where the engine takes them so
	keys    []*key           // those whose position changes
	missing map[keyName]bool // names that the chain does not know; where there are some the draft is of no use
	details int              // bytes of details, the only texts that may be long
}

// row is an entry with what stands beside it: key and position in its category, of its action, of its actor.
type row struct {
	auditlog.Entry
	key, pos [3]int64
}

func (c *chain) begin(d dialect) *draft {
	c.drafts++
	w := &draft{chain: c, from: c.head, head: c.head, rows: make([]row, 0, c.rows)}
	if d.swap {
		w.columns = &columns{}
		for i := range w.columns {
			w.columns[i].Grow(min(c.widths[i]*9/8+64, maxGrow))
		}
	}
	return w
}

// add seals a record.
func (d *draft) add(r auditlog.Record, now time.Time) error {
	e, err := r.Seal(d.head, now)
	if err != nil {
		return err
	}
	d.head = e.Head()
	d.details += len(e.Detail)
	c := d.chain
	keys, ok := c.of[who{e.Action, e.UserName, e.UserID}]
	if !ok {
		if keys, ok = d.find(e); !ok {
			return nil
		}
	}
	d.rows = append(d.rows, row{Entry: e})
	added := &d.rows[len(d.rows)-1]
	for j, k := range keys {
		if k.draft != c.drafts {
			k.draft, k.next = c.drafts, k.pos
			d.keys = append(d.keys, k)
		}
		k.next++
		added.key[j], added.pos[j] = k.id, k.next
	}
	if d.columns != nil {
		d.columns.add(added)
	}
	return nil
}

// full tells whether a statement should take no more.
func (d *draft) full() bool { return len(d.rows) >= piece || d.details >= pieceBytes }

// draft seals records of one tenant, as many as one statement takes, and tells how many.
func (c *chain) draft(engine dialect, records []auditlog.Record, now time.Time) (d *draft, n int, err error) {
	d = c.begin(engine)
	d.rows = slices.Grow(d.rows, min(len(records), piece))
	for ; n < min(len(records), piece) && !d.full(); n++ {
		if err := d.add(records[n], now); err != nil {
			return nil, 0, err
		}
	}
	return d, n, nil
}

// find looks the keys of an entry up one by one, and notes those that are missing.
func (d *draft) find(e auditlog.Entry) (keys [3]*key, ok bool) {
	ok = true
	for j, n := range namesOf(e) {
		if keys[j] = d.chain.keys[n]; keys[j] == nil {
			if d.missing == nil {
				d.missing = map[keyName]bool{}
			}
			d.missing[n] = true
			ok = false
		}
	}
	if ok {
		d.chain.of[who{e.Action, e.UserName, e.UserID}] = keys
	}
	return keys, ok
}

// committed moves the chain to where the draft leaves the log.
func (d *draft) committed() {
	d.chain.head, d.chain.rows = d.head, min(len(d.rows), piece)
	if d.columns != nil {
		for i := range d.columns {
			d.chain.widths[i] = d.columns[i].Len()
		}
	}
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
		_, err = q.ExecContext(ctx, "INSERT INTO audit_heads (name) VALUES ($1) ON CONFLICT (name) DO NOTHING", tenantID)
		if err != nil {
			return log{}, fmt.Errorf("begin log: %w", err)
		}
	}
	return log{}, fmt.Errorf("begin log of %q: its row is not there", tenantID)
}

// What one statement inserts: entries at most, and bytes of details after which it takes no more.
const (
	piece      = 2048
	pieceBytes = 8 << 20
	maxGrow    = 1 << 20 // bytes that are reserved for a column
)

// appendLocked writes the records behind the head that is locked. Whatever becomes of the transaction, the chain takes it
// for committed.
func (s *Store) appendLocked(ctx context.Context, q querier, c *chain, l log, records []auditlog.Record) error {
	if err := c.catchUp(ctx, q, l); err != nil {
		return fmt.Errorf("read end of log: %w", err)
	}
	now := s.now()
	for rest := records; len(rest) > 0; {
		d, n, err := c.draft(s.sql, rest, now)
		if err == nil && d.missing != nil {
			if err := c.learn(ctx, q, s.sql, slices.Collect(maps.Keys(d.missing))); err != nil {
				return fmt.Errorf("read keys: %w", err)
			}
			d, n, err = c.draft(s.sql, rest, now)
		}
		if err != nil {
			return err
		}
		if err := s.sql.insert(ctx, q, d); err != nil {
			return collision(err, rest[0].TenantID(), d.from.ID+1)
		}
		d.committed()
		rest = rest[n:]
	}
	return nil
}
