package sqlaudit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/seed93082962/agenthost/auditlog"
)

// pruneSize is how many entries go in one transaction, during which nobody can append to that log.
const pruneSize = 1_000

// Prune takes away the entries created before a time, and the names of users of whom nothing is left. It does so in
// several transactions: after an error some may be gone.
func (s *Store) Prune(ctx context.Context, tenantID string, before time.Time) (uint64, error) {
	l, err := s.log(ctx, tenantID)
	if err != nil {
		return 0, fmt.Errorf("prune audit log: %w", err)
	}
	from, err := s.span(ctx, l, auditlog.Filter{From: before}, l.head.ID)
	if err != nil {
		return 0, fmt.Errorf("prune audit log: %w", err)
	}
	var total uint64
	for l.tenant != 0 && signed(l.floor.ID) < from.lo {
		n, err := s.pruneSome(ctx, tenantID, unsigned(from.lo))
		if total += n; err != nil {
			return total, fmt.Errorf("prune audit log: %w", err)
		}
		if l, err = s.log(ctx, tenantID); err != nil {
			return total, fmt.Errorf("prune audit log: %w", err)
		}
	}
	return total, nil
}

// pruneSome takes away the oldest entries up to an id, at most pruneSize.
func (s *Store) pruneSome(ctx context.Context, tenantID string, last uint64) (n uint64, err error) {
	for attempt := 0; ; attempt++ {
		n, err = s.tryPrune(ctx, tenantID, last)
		if errors.Is(err, sql.ErrTxDone) && ctx.Err() != nil { // which is how database/sql tells it of a transaction
			return 0, context.Cause(ctx)
		}
		if err == nil || !transient(err) || attempt == attempts {
			return n, err
		}
		if err := pause(ctx, attempt); err != nil {
			return 0, err
		}
	}
}

func (s *Store) tryPrune(ctx context.Context, tenantID string, last uint64) (uint64, error) {
	tx, err := s.write.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback() }()
	l, err := s.lock(ctx, tx, tenantID)
	if err != nil {
		return 0, err
	}
	last = min(last, l.floor.ID+pruneSize)
	if last <= l.floor.ID {
		return 0, nil
	}
	const gone = "FROM audit_entries WHERE tenant = $1 AND id <= $2"
	floors := `UPDATE audit_keys SET floor = p.pos FROM (
			SELECT category AS key, MAX(category_pos) AS pos ` + gone + ` GROUP BY category
			UNION ALL SELECT action, MAX(action_pos) ` + gone + ` GROUP BY action
			UNION ALL SELECT actor, MAX(actor_pos) ` + gone + ` GROUP BY actor
		) p WHERE audit_keys.key = p.key`
	if _, err := change(ctx, tx, floors, l.tenant, signed(last)); err != nil {
		return 0, err
	}
	moved, err := change(ctx, tx, `UPDATE audit_heads SET floor_id = e.id, floor_hash = e.hash, floor_at = e.created_at
			FROM audit_entries e
			WHERE audit_heads.tenant = $1 AND e.tenant = $1 AND e.id = $2`, l.tenant, signed(last))
	if err != nil {
		return 0, err
	}
	if moved != 1 {
		return 0, &auditlog.DamagedError{TenantID: tenantID, ID: last}
	}
	if err := s.forget(ctx, tx, l, signed(last)); err != nil {
		return 0, err
	}
	n, err := change(ctx, tx, "DELETE "+gone, l.tenant, signed(last))
	if err != nil {
		return 0, err
	}
	return unsigned(n), tx.Commit()
}

// forget takes away the names of users of whom only entries up to an id are left.
func (s *Store) forget(ctx context.Context, tx *sql.Tx, l log, last int64) error {
	rows, err := tx.QueryContext(ctx, `DELETE FROM audit_keys WHERE kind = 3
		AND key IN (SELECT actor FROM audit_entries WHERE tenant = $1 AND id <= $2)
		AND NOT EXISTS (SELECT 1 FROM audit_entries e WHERE e.actor = audit_keys.key AND e.id > $2) RETURNING owner`, l.tenant, last)
	if err != nil {
		return err
	}
	owners, err := integers(rows)
	if err != nil || len(owners) == 0 {
		return err
	}
	_, err = change(ctx, tx, "DELETE FROM audit_keys WHERE kind = 4 AND key IN "+fmt.Sprintf(s.sql.set, "$1")+`
		AND NOT EXISTS (SELECT 1 FROM audit_keys a WHERE a.owner = audit_keys.key AND a.kind = 3)`, set(owners))
	if err != nil {
		return err
	}
	_, err = change(ctx, tx, "UPDATE audit_heads SET epoch = epoch + 1 WHERE tenant = $1", l.tenant)
	return err
}

// change tells how many rows a statement changed.
func change(ctx context.Context, q querier, query string, args ...any) (int64, error) {
	done, err := q.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	return done.RowsAffected()
}
