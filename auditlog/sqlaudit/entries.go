package sqlaudit

import (
	"context"
	"database/sql"
	"fmt"
	"iter"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/internal/leaf/auditstore"
)

// chunkSize is the number of entries in memory. Between chunks nothing is open in the database.
const chunkSize = 500

// Entries implements [auditlog.Store].
func (s *Store) Entries(ctx context.Context, tenantID string, f auditlog.Filter, snapshot *uint64) iter.Seq2[auditlog.Entry, error] {
	return func(yield func(auditlog.Entry, error) bool) {
		r := &reader{store: s, tenantID: tenantID}
		if f == (auditlog.Filter{}) && snapshot == nil {
			r.check = newChecker(s, tenantID)
		}

		if err := r.read(ctx, f, snapshot, yield); err != nil {
			yield(auditlog.Entry{}, fmt.Errorf("read audit log: %w", err))
		}
	}
}

// reader reads the entries that match a filter, oldest first.
type reader struct {
	store    *Store
	tenantID string
	span
	statement          // of a chunk. $1 to $3 are its bounds
	check     *checker // nil unless everything about the log is read
}

func (r *reader) read(ctx context.Context, f auditlog.Filter, snapshot *uint64, yield func(auditlog.Entry, error) bool) error {
	if !auditstore.Storable(r.tenantID) || f.Void() {
		return nil
	}

	if err := r.store.snapshot(ctx, func(tx *sql.Tx) error { return r.begin(ctx, tx, f, snapshot) }); err != nil {
		return err
	}

	for after := r.lo; after < r.hi && r.text != ""; {
		var rows []row
		err := r.store.snapshot(ctx, func(tx *sql.Tx) (err error) {
			rows, err = r.chunk(ctx, tx, after)
			return err
		})
		if err != nil {
			return err
		}

		for i := range rows {
			if !yield(rows[i].Entry, nil) {
				return nil
			}
		}

		if len(rows) < chunkSize {
			break
		}

		after = signed(rows[len(rows)-1].ID)
	}

	if r.check == nil {
		return nil
	}

	return r.store.snapshot(ctx, func(tx *sql.Tx) error { return r.check.rest(ctx, tx) })
}

// begin finds the span and the statement of the chunks. Without a statement nothing matches.
func (r *reader) begin(ctx context.Context, tx querier, f auditlog.Filter, snapshot *uint64) error {
	var err error
	if r.span, err = readSpan(ctx, tx, auditlog.Query{TenantID: r.tenantID, Filter: f, Snapshot: snapshot}); err != nil {
		return err
	}

	if r.column != "" && r.key == 0 {
		return nil
	}

	r.args = []any{r.tenant, nil, r.hi}
	where := "e.tenant = $1"
	if r.column != "" {
		r.args[0] = r.key
		where = "e." + r.column + " = $1"
	}

	where += " AND e.id > $2 AND e.id <= $3"
	if f.User != "" {
		where += " AND (e.user_key IN (" + r.store.engine.users(&r.statement, r.tenant, f.User) + ")) IS TRUE" // no other index
	}

	r.text = "SELECT " + entryColumns + " FROM audit_entries e WHERE " + where + " ORDER BY e.id" + limitTo(chunkSize)
	return nil
}

func (r *reader) chunk(ctx context.Context, tx querier, after int64) ([]row, error) {
	rows := make([]row, 0, chunkSize)
	r.args[1] = after
	err := forEach(ctx, tx, r.text, r.args, func(scan *sql.Rows) error {
		var one row
		err := one.scan(scan, r.tenantID)
		rows = append(rows, one)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read entries: %w", err)
	}

	if r.check != nil {
		return rows, r.check.check(ctx, tx, after, rows)
	}

	return rows, nil
}
