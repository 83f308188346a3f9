package sqlaudit

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/internal/leaf/auditstore"
)

// pruneSize is the number of entries that one transaction deletes. No entry can be appended to the
// log during it.
const pruneSize = 1_000

// Prune implements [auditlog.Store]. It deletes entries in several transactions: after an error,
// some of them may be deleted. It also deletes the names of users without any entry left.
func (s *Store) Prune(ctx context.Context, tenantID string, retention time.Duration,
	as auditlog.Action[auditlog.Pruning],
) (uint64, error) {
	p := &pruning{store: s, tenantID: tenantID}
	if err := p.begin(ctx, retention, as); err != nil {
		return 0, fmt.Errorf("prune audit log: %w", err)
	}

	var deleted uint64
	for done := p.last == 0; !done; {
		var n uint64
		err := retry(ctx, func() (err error) {
			n, done, err = p.step(ctx)
			return err
		})
		if err != nil {
			return deleted, fmt.Errorf("prune audit log: %w", err)
		}

		deleted, p.recorded = deleted+n, true
	}

	return deleted, nil
}

// pruning is one call of Prune.
type pruning struct {
	store    *Store
	tenantID string
	last     int64 // id of the last entry to delete; 0 if there is none
	record   func(checkpoint, last auditlog.Head) auditlog.Record
	recorded bool
}

func (p *pruning) begin(ctx context.Context, retention time.Duration, as auditlog.Action[auditlog.Pruning]) error {
	now, err := p.store.Clock(ctx)
	if err != nil {
		return err
	}

	cutoff, err := auditstore.Cutoff(retention, now)
	if err != nil || !auditstore.Storable(p.tenantID) {
		return err
	}

	p.record = func(checkpoint, last auditlog.Head) auditlog.Record {
		return as.Record(auditlog.Event{TenantID: p.tenantID}, auditlog.Pruning{
			Entries: last.ID - checkpoint.ID, Before: cutoff, RetentionSeconds: int64(retention / time.Second), Checkpoint: last,
		})
	}
	return p.store.snapshot(ctx, func(tx *sql.Tx) error {
		sp, err := readSpan(ctx, tx, auditlog.Query{TenantID: p.tenantID, Filter: auditlog.Filter{From: cutoff}})
		p.last = sp.lo
		return err
	})
}

// step deletes the oldest entries, at most pruneSize, and reports whether they were the last.
func (p *pruning) step(ctx context.Context) (uint64, bool, error) {
	tx, err := p.store.write.BeginTx(ctx, &sql.TxOptions{Isolation: p.store.engine.isolation})
	if err != nil {
		return 0, false, err
	}

	defer func() { _ = tx.Rollback() }()
	l, err := lock(ctx, tx, p.store.engine, p.tenantID)
	if err != nil {
		return 0, false, err
	}

	floor := signed(l.floor.ID)
	if p.last <= floor { // another process deleted them
		return 0, true, nil
	}

	if !p.recorded {
		if err := p.append(ctx, tx, l); err != nil {
			return 0, false, err
		}
	}

	to := min(p.last, floor+pruneSize)
	deleted, err := deleteUpTo(ctx, tx, p.tenantID, l.tenant, to)
	if err != nil {
		return 0, false, err
	}

	return deleted, to == p.last, tx.Commit()
}

// append appends the entry that records the pruning, before anything is deleted.
func (p *pruning) append(ctx context.Context, tx *sql.Tx, l log) error {
	last, err := entryHead(ctx, tx, l.tenant, p.last)
	if err != nil {
		return err
	}

	if last.ID == 0 {
		return &auditlog.DamagedError{TenantID: p.tenantID, ID: unsigned(p.last)}
	}

	return p.store.AppendTx(ctx, tx, p.record(l.floor, last))
}

// entryHead returns an entry as a head, or the zero Head if it does not exist.
func entryHead(ctx context.Context, tx querier, tenant, id int64) (auditlog.Head, error) {
	var h auditlog.Head
	var micros int64
	err := scanRow(ctx, tx, "SELECT id, hash, created_at FROM audit_entries WHERE tenant = $1 AND id = $2",
		[]any{tenant, id}, &h.ID, &h.Hash, &micros)
	return headAt(h, micros), err
}

// deleteUpTo deletes the entries up to an id and the users without later ones, and moves the floors
// of the log and of its keys.
func deleteUpTo(ctx context.Context, tx *sql.Tx, tenantID string, tenant, last int64) (uint64, error) {
	const deleted = "FROM audit_entries WHERE tenant = $1 AND id <= $2"
	_, err := tx.ExecContext(ctx, `UPDATE audit_keys SET floor = p.pos FROM (
			SELECT category AS key, MAX(category_pos) AS pos `+deleted+` GROUP BY category
			UNION ALL SELECT action, MAX(action_pos) `+deleted+` GROUP BY action
		) p WHERE audit_keys.key = p.key`, tenant, last)
	if err != nil {
		return 0, err
	}

	moved, err := changed(tx.ExecContext(ctx, `UPDATE audit_heads SET floor_id = e.id, floor_hash = e.hash, floor_at = e.created_at
		FROM audit_entries e WHERE audit_heads.tenant = $1 AND e.tenant = $1 AND e.id = $2`, tenant, last))
	if err != nil {
		return 0, err
	}

	if moved != 1 {
		return 0, &auditlog.DamagedError{TenantID: tenantID, ID: unsigned(last)}
	}

	_, err = tx.ExecContext(ctx, `DELETE FROM audit_keys WHERE kind = 4 AND key IN (SELECT user_key `+deleted+`)
		AND NOT EXISTS (SELECT 1 FROM audit_entries e WHERE e.user_key = audit_keys.key AND e.id > $2)`, tenant, last)
	if err != nil {
		return 0, err
	}

	return changed(tx.ExecContext(ctx, "DELETE "+deleted, tenant, last))
}

// changed returns the number of rows that a statement changed.
func changed(result sql.Result, err error) (uint64, error) {
	if err != nil {
		return 0, err
	}

	n, err := result.RowsAffected()
	return unsigned(n), err
}
