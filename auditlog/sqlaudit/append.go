package sqlaudit

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/seed93082962/agenthost/auditlog"
)

// ErrClosed is what Append returns after Close.
var ErrClosed = errors.New("the audit log is closed")

// Append writes the records at the end of their logs, all or none, in a transaction that concurrent calls share. An error
// means that they may not be there: where the connection broke or ctx ended while the transaction was being committed,
// nobody knows, and the error says so. Other callers' records and contexts have no influence.
func (s *Store) Append(ctx context.Context, records ...auditlog.Record) error {
	if err := check(records); err != nil || len(records) == 0 {
		return err
	}
	if err := s.batch.append(ctx, records); err != nil {
		return fmt.Errorf("append to audit log: %w", err)
	}
	return nil
}

// AppendTx is Append in the caller's transaction, which stands on the same database: the records are there if it commits.
// From then until the transaction ends everyone else who appends to these logs waits, so it should be the last
// that is done in it. Where one transaction appends several times, to several logs, it should do so in the same
// order as others or in one call.
func (s *Store) AppendTx(ctx context.Context, tx *sql.Tx, records ...auditlog.Record) error {
	if err := check(records); err != nil {
		return err
	}
	for _, g := range groups(records) {
		if err := s.appendTx(ctx, tx, g); err != nil {
			return fmt.Errorf("append to audit log: %w", err)
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

// group is records of one tenant.
type group struct {
	tenantID string
	records  []auditlog.Record
}

// groups sorts by tenant, because whoever locks several logs must do so in one order.
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
