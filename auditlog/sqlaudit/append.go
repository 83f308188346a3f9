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
	"github.com/seed93082962/agenthost/internal/leaf/sqlerr"
)

// Append writes the records in a transaction of its own. It repeats a transaction that failed
// because of concurrent ones. After an error none of the records is in the log, with one exception:
// if the connection breaks or ctx ends during the commit, the outcome is unknown, and the error
// says so.
func (s *Store) Append(ctx context.Context, records ...auditlog.Record) error {
	if err := check(records); err != nil || len(records) == 0 {
		return err
	}

	err := retry(ctx, func() error {
		tx, err := s.write.BeginTx(ctx, &sql.TxOptions{Isolation: s.engine.isolation})
		if err == nil {
			defer func() { _ = tx.Rollback() }()
			err = s.appendGroups(ctx, tx, records)
		}

		if err != nil && ctx.Err() != nil {
			return context.Cause(ctx)
		} else if err != nil {
			return err
		}

		if err := tx.Commit(); err != nil {
			if !sqlerr.RolledBack(err) || errors.Is(err, sql.ErrTxDone) {
				err = fmt.Errorf("it is unknown whether the entries were written: %w", err)
			}

			return fmt.Errorf("commit: %w", err)
		}

		return nil
	})
	if err != nil {
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

	if err := s.appendGroups(ctx, tx, records); err != nil {
		return fmt.Errorf("append to audit log: %w", err)
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

// appendGroups appends the records of each tenant, sorted by tenant: all writers must lock several
// logs in the same order.
func (s *Store) appendGroups(ctx context.Context, tx execer, records []auditlog.Record) error {
	sorted := slices.Clone(records)
	slices.SortStableFunc(sorted, func(a, b auditlog.Record) int { return cmp.Compare(a.TenantID(), b.TenantID()) })
	for len(sorted) > 0 {
		tenantID := sorted[0].TenantID()
		n := slices.IndexFunc(sorted, func(r auditlog.Record) bool { return r.TenantID() != tenantID })
		if n < 0 {
			n = len(sorted)
		}

		if err := s.appendGroup(ctx, tx, tenantID, sorted[:n]); err != nil {
			return err
		}

		sorted = sorted[n:]
	}

	return nil
}

// appendGroup locks the log and appends the records of its tenant.
func (s *Store) appendGroup(ctx context.Context, tx execer, tenantID string, records []auditlog.Record) error {
	l, err := lock(ctx, tx, s.engine, tenantID)
	if err != nil {
		return err
	}

	entries := make([]auditlog.Entry, len(records))
	for i := range records {
		entries[i] = records[i].Entry()
	}

	known, err := keysOf(ctx, tx, l.tenant, entries)
	if err != nil {
		return err
	}

	now := s.now()
	for i := range entries {
		r := row{Entry: entries[i]}
		r.Seal(l.head, now)
		l.head = r.Head()
		for j, n := range namesOf(&r.Entry) {
			k := known[n]
			k.pos++
			r.key[j] = k.id
			r.pos[j] = k.pos
		}

		if err := r.insert(ctx, tx, l.tenant); sqlerr.UniqueViolation(err) { // no other writer can have inserted it
			return fmt.Errorf("%w: %w", &auditlog.DamagedError{TenantID: tenantID, ID: r.ID}, err)
		} else if err != nil {
			return fmt.Errorf("insert entry: %w", err)
		}
	}

	_, err = tx.ExecContext(ctx, "UPDATE audit_heads SET id = $1, hash = $2, at = $3 WHERE tenant = $4",
		signed(l.head.ID), l.head.Hash, l.head.CreatedAt.UnixMicro(), l.tenant)
	return err
}

func (r *row) insert(ctx context.Context, tx execer, tenant int64) error {
	var detail any
	if r.Detail != nil {
		detail = string(r.Detail)
	}

	_, err := tx.ExecContext(ctx, `INSERT INTO audit_entries (tenant, id, created_at, category, category_pos, action, action_pos, user_key,
			target_type, target_id, target_name, status, detail, remote_ip, user_agent, hash)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)`,
		tenant, signed(r.ID), r.CreatedAt.UnixMicro(), r.key[0], r.pos[0], r.key[1], r.pos[1], r.key[2],
		r.TargetType, r.TargetID, r.TargetName, string(r.Status), detail, r.RemoteIP, r.UserAgent, r.Hash)
	return err
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

// cause returns the cause of the end of ctx in place of the errors with which database/sql and the
// driver of SQLite may report it.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil && (errors.Is(err, sql.ErrTxDone) || sqlerr.Interrupted(err)) {
		return context.Cause(ctx)
	}

	return err
}

// attempts bounds the repetitions of a transaction, which take about two seconds.
const attempts = 12

// retry repeats a transaction that was rolled back because of concurrent ones.
func retry(ctx context.Context, transaction func() error) error {
	for attempt := 0; ; attempt++ {
		err := cause(ctx, transaction())
		if !sqlerr.Retryable(err) && !sqlerr.LockTimeout(err) || attempt == attempts {
			return err
		}

		most := min(time.Millisecond<<attempt, 400*time.Millisecond)
		wait := time.NewTimer(most/2 + rand.N(most/2))
		select {
		case <-ctx.Done():
			wait.Stop()
			return context.Cause(ctx)
		case <-wait.C:
		}
	}
}
