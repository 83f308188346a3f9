package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/rbac"
)

// Change is the caller of a change, the permission that the caller needs, and the lock.
type Change struct {
	// Caller makes the change. The zero value is the hub itself.
	Caller api.Caller

	// Group is the group of roles that may make the change. The zero group is everyone, also a
	// caller who is not signed in.
	Group rbac.Group

	// Lock runs first in the transaction. It excludes concurrent changes until the end of the
	// transaction. Defaults to none.
	Lock Lock
}

// Lock locks rows of a tenant until the transaction ends.
type Lock func(ctx context.Context, tx *sql.Tx, tenantID string) error

// Tx is the transaction of a change.
type Tx struct {
	*sql.Tx
	Caller api.Caller
	Now    time.Time // of the whole change

	records   []auditlog.Record
	after     []func()
	unchanged bool
}

// Record adds entries to the audit log. They are appended in the order of the calls, as the last
// statement of the transaction: appending locks the log of the tenant.
func (tx *Tx) Record(records ...auditlog.Record) { tx.records = append(tx.records, records...) }

// AfterCommit registers a function that is called after the commit, before [Store.Change] returns.
// It is not called if the transaction is rolled back.
func (tx *Tx) AfterCommit(do func()) { tx.after = append(tx.after, do) }

// Unchanged returns nil. If the function of a change returns after it without an error, the
// transaction is rolled back, with its locks and versions, and [Store.Change] returns nil.
func (tx *Tx) Unchanged() error {
	tx.unchanged = true
	return nil
}

// errUnchanged makes [db.DB.Tx] roll back.
var errUnchanged = errors.New("nothing has changed")

// Change makes one change. It checks that the caller has a role of the group, begins a transaction,
// takes the lock, calls do, appends what do recorded to the audit log, commits, and calls what do
// registered for after the commit. If any step fails, nothing is changed and nothing is recorded.
//
// do may be called again if the transaction was rolled back because of concurrent ones, see
// [db.DB.Tx]. Variables that it sets must not depend on an earlier call.
func (s *Store) Change(ctx context.Context, c Change, do func(tx *Tx) error) error {
	if !c.Group.IsZero() {
		if err := c.Group.Check(c.Caller); err != nil {
			return err
		}
	}

	var tx *Tx
	var failed error // of the audit log
	unchanged := false
	err := s.DB.Tx(ctx, func(sqlTx *sql.Tx) error {
		tx = &Tx{Tx: sqlTx, Caller: c.Caller, Now: s.Now()}
		if c.Lock != nil {
			if err := c.Lock(ctx, sqlTx, c.Caller.TenantID); err != nil {
				return err
			}
		}

		if err := do(tx); err != nil {
			return err
		}

		if unchanged = tx.unchanged; unchanged {
			return errUnchanged
		}

		if len(tx.records) == 0 {
			return nil
		}

		failed = db.Wrap("record", s.Audit.AppendTx(ctx, sqlTx, tx.records...))
		return failed
	})
	if unchanged {
		return nil
	}

	if err != nil {
		if errors.Is(err, failed) {
			s.metrics.appended(ctx, 0, failed)
		}

		return err
	}

	s.metrics.appended(ctx, len(tx.records), nil)
	for _, do := range tx.after {
		do()
	}

	return nil
}

// CheckVersion returns wire.PreconditionFailed if a caller expects another version than the stored
// one. A nil expectation is every version.
func CheckVersion(expected *int64, stored int64) error {
	if expected != nil && *expected != stored {
		return wire.PreconditionFailed
	}

	return nil
}
