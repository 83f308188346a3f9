package sqlaudit

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/internal/sqlerr"
)

// ErrClosed is returned by Append after Close.
var ErrClosed = errors.New("the audit log is closed")

// Append writes the records in a transaction that concurrent calls share. After an error none of
// them is in the log, with one exception: if the connection breaks or ctx ends during the commit,
// the outcome is unknown, and the error says so. Records and contexts of other callers have no
// influence.
func (s *Store) Append(ctx context.Context, records ...auditlog.Record) error {
	if err := check(records); err != nil || len(records) == 0 {
		return err
	}
	if err := s.batches.append(ctx, records); err != nil {
		return fmt.Errorf("append to audit log: %w", err)
	}
	return nil
}

// AppendTx writes the records in a transaction of the caller on the same database. They are in the
// log if it commits. Until then all other writers of these logs wait, so it should be the last step
// of the transaction. A transaction that appends to several logs should do so in one call, or in
// the same order as all others.
func (s *Store) AppendTx(ctx context.Context, tx *sql.Tx, records ...auditlog.Record) error {
	if err := check(records); err != nil {
		return err
	}
	for _, g := range groups(records) {
		c, err := s.appendLocked(ctx, tx, g)
		if err != nil {
			return fmt.Errorf("append to audit log: %w", err)
		}
		if !c.made {
			s.chains.put(g.tenantID, c)
		}
	}
	return nil
}

func check(records []auditlog.Record) error {
	for _, r := range records {
		if err := r.Err(); err != nil {
			return err
		}
	}
	return nil
}

// group is the records of one tenant.
type group struct {
	tenantID string
	records  []auditlog.Record
}

// groups sorts by tenant, because all writers must lock several logs in the same order.
func groups(records []auditlog.Record) []group {
	var all []group
	for _, r := range records {
		i := slices.IndexFunc(all, func(g group) bool { return g.tenantID == r.TenantID() })
		if i < 0 {
			i = len(all)
			all = append(all, group{tenantID: r.TenantID()})
		}
		all[i].records = append(all[i].records, r)
	}
	slices.SortFunc(all, func(a, b group) int { return cmp.Compare(a.tenantID, b.tenantID) })
	return all
}

// lock locks the head row of a tenant until the transaction ends, and inserts it if it does not
// exist.
func lock(ctx context.Context, tx execer, e engine, tenantID string) (log, error) {
	l, err := scanLog(ctx, tx, e.lock, tenantID)
	if err != nil || l.tenant != 0 {
		return l, err
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO audit_heads (name) VALUES ($1) ON CONFLICT (name) DO NOTHING", tenantID); err != nil {
		return l, fmt.Errorf("insert head of audit log: %w", err)
	}
	if l, err = scanLog(ctx, tx, e.lock, tenantID); err == nil && l.tenant == 0 {
		err = fmt.Errorf("lock audit log of %q: its head row does not exist", tenantID)
	}
	return l, err
}

// appendLocked locks the log and appends the records. The chain that it returns is right if the
// transaction commits.
func (s *Store) appendLocked(ctx context.Context, tx execer, g group) (*chain, error) {
	l, err := lock(ctx, tx, s.engine, g.tenantID)
	if err != nil {
		return nil, err
	}
	c := s.chains.take(g.tenantID)
	if !c.current(l) {
		c = &chain{log: l, keys: map[name]*key{}}
	}
	rows, missing := c.rows(g.records)
	if len(missing) > 0 {
		if err := c.learn(ctx, tx, missing); err != nil {
			return nil, err
		}
		rows, _ = c.rows(g.records)
	}
	now := s.now()
	for len(rows) > 0 {
		n := piece(rows)
		from := c.head
		c.seal(rows[:n], now)
		err := s.engine.insert(ctx, tx, c.log, from, rows[:n])
		if sqlerr.UniqueViolation(err) { // no other writer can have inserted them
			err = fmt.Errorf("%w: %w", &auditlog.DamagedError{TenantID: g.tenantID, ID: from.ID + 1}, err)
		}
		if err != nil {
			return nil, err
		}
		rows = rows[n:]
	}
	return c, nil
}

// writeLocked appends the records in a transaction of its own. It repeats a transaction that failed
// because of concurrent ones.
func (s *Store) writeLocked(ctx context.Context, records []auditlog.Record) error {
	all := groups(records)
	return retry(ctx, func() error {
		tx, err := s.write.BeginTx(ctx, nil)
		if err != nil {
			return fmt.Errorf("begin: %w", err)
		}
		defer func() { _ = tx.Rollback() }()
		chains := make([]*chain, len(all))
		for i, g := range all {
			if chains[i], err = s.appendLocked(ctx, tx, g); err != nil {
				return err
			}
		}
		if err := tx.Commit(); err != nil {
			if !sqlerr.RolledBack(err) || errors.Is(err, sql.ErrTxDone) {
				err = unknown(err)
			}
			return fmt.Errorf("commit: %w", err)
		}
		for i, g := range all {
			s.chains.put(g.tenantID, chains[i])
		}
		return nil
	})
}

// writeUnlocked appends the records in one statement without a lock. If that is not possible, it
// reports false and has written nothing: the records belong to several logs, a name is new, the
// database rejects a record, or another writer has changed the log (errMoved).
func (s *Store) writeUnlocked(ctx context.Context, records []auditlog.Record) (done bool, err error) {
	tenantID := records[0].TenantID()
	if !s.engine.postgres ||
		slices.ContainsFunc(records, func(r auditlog.Record) bool { return r.TenantID() != tenantID }) {
		return false, nil
	}
	c := s.chains.take(tenantID)
	if c == nil {
		return false, nil
	}
	rows, missing := c.rows(records)
	if len(missing) > 0 || piece(rows) < len(rows) {
		s.chains.put(tenantID, c)
		return false, nil
	}
	from := c.head
	c.seal(rows, s.now())
	err = s.engine.insert(ctx, s.write, c.log, from, rows)
	switch {
	case err == nil:
		s.chains.put(tenantID, c)
		return true, nil
	case errors.Is(err, errMoved), sqlerr.RolledBack(err):
		return false, err
	}
	return true, unknown(err)
}

// unknown wraps an error after which the records may or may not be in the log.
func unknown(err error) error {
	return fmt.Errorf("it is unknown whether the entries were written: %w", err)
}

// attempts bounds the repetitions of a transaction, which take about two seconds.
const attempts = 12

// retry repeats a transaction that was rolled back because of concurrent ones.
func retry(ctx context.Context, transaction func() error) error {
	for attempt := 0; ; attempt++ {
		err := transaction()
		if errors.Is(err, sql.ErrTxDone) && ctx.Err() != nil { // how database/sql reports it
			return context.Cause(ctx)
		}
		if !sqlerr.Retryable(err) && !sqlerr.LockTimeout(err) || attempt == attempts {
			return err
		}
		most := min(time.Millisecond<<attempt, 400*time.Millisecond)
		wait := time.NewTimer(most/2 + rand.N(most/2)) //nolint:gosec // no secret
		select {
		case <-ctx.Done():
			wait.Stop()
			return context.Cause(ctx)
		case <-wait.C:
		}
	}
}
