package sqlaudit

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/seed93082962/agenthost/auditlog"
)

// chunkSize is how many entries are in memory at once. Between chunks nothing is kept open in the database.
const chunkSize = 500

// Entries gives what fits the filter, oldest first. Without a filter and a snapshot, as for [auditlog.Verify], it also checks
// what stands beside an entry: one that the indexes would show in the wrong place comes without its hash, so that it does
// not verify. Then it looks for what belongs to no entry: see [auditlog.Store].
func (s *Store) Entries(ctx context.Context, tenantID string, f auditlog.Filter,
	snapshot *uint64,
) iter.Seq2[auditlog.Entry, error] {
	return func(yield func(auditlog.Entry, error) bool) {
		if err := s.stream(ctx, tenantID, f, snapshot, yield); err != nil {
			yield(auditlog.Entry{}, fmt.Errorf("read audit log: %w", err))
		}
	}
}

func (s *Store) stream(ctx context.Context, tenantID string, f auditlog.Filter, snapshot *uint64,
	yield func(auditlog.Entry, error) bool,
) error {
	l, err := s.log(ctx, tenantID)
	if err != nil {
		return err
	}
	end := auditlog.Query{Snapshot: snapshot}.View(l.head.ID)
	from, err := s.source(ctx, l, f, end)
	for tries := 1; errors.Is(err, errPruned) && tries < attempts; tries++ {
		if l, err = s.log(ctx, tenantID); err == nil {
			from, err = s.source(ctx, l, f, end)
		}
	}
	if err != nil {
		return err
	}
	if f != (auditlog.Filter{}) || snapshot != nil {
		_, err := chunks(ctx, from, end, yield, func(rows []row) ([]row, error) { return s.whole(ctx, tenantID, rows) })
		return err
	}
	check := &checker{store: s, tenant: l.tenant, tenantID: tenantID, seen: map[int64]seen{}}
	all, err := chunks(ctx, from, end, yield, func(rows []row) ([]row, error) { return check.whole(ctx, rows) })
	if err != nil || !all {
		return err
	}
	return check.rest(ctx)
}

// whole fills in names. Where some are gone it leaves out what was pruned since it was read; other entries keep what is left.
func (s *Store) whole(ctx context.Context, tenantID string, rows []row) ([]row, error) {
	nameless, err := s.fill(ctx, tenantID, rows)
	if err != nil || nameless == 0 {
		return rows, err
	}
	return s.left(ctx, tenantID, rows)
}

// left leaves out what was pruned by now.
func (s *Store) left(ctx context.Context, tenantID string, rows []row) ([]row, error) {
	l, err := s.log(ctx, tenantID)
	return slices.DeleteFunc(rows, func(r row) bool { return r.ID <= l.floor.ID }), err
}

// chunks yields the entries of a source up to an id, and tells whether all were wanted.
func chunks(ctx context.Context, from source, end uint64, yield func(auditlog.Entry, error) bool,
	fill func([]row) ([]row, error),
) (bool, error) {
	if from.total() == 0 {
		return true, nil
	}
	for after := int64(0); after < signed(end); {
		rows, next, err := from.chunk(ctx, after, chunkSize)
		if err != nil {
			return false, err
		}
		if rows, err = fill(rows); err != nil {
			return false, err
		}
		for i := range rows {
			if !yield(rows[i].Entry, nil) {
				return false, nil
			}
		}
		if next <= after {
			break
		}
		after = next
	}
	return true, nil
}
