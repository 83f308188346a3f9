package sqlaudit

import (
	"context"
	"fmt"
	"iter"

	"github.com/seed93082962/agenthost/auditlog"
)

// chunkSize is how many entries are in memory at once. Between chunks nothing is kept open in the database.
const chunkSize = 500

// Entries gives what fits the filter, oldest first. Where no filter is given, as for [auditlog.Verify], it also checks
// what stands beside an entry: one that the indexes would show in the wrong place comes without its hash, so that it
// does not verify.
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
	view := auditlog.Query{Snapshot: snapshot}
	from, err := s.source(ctx, l, f, view.View(l.head.ID))
	if err != nil || from.total() == 0 {
		return err
	}
	var check *checker
	if f == (auditlog.Filter{}) {
		check = &checker{store: s, log: l, tenantID: tenantID, seen: map[int64]seen{}}
	}
	end := signed(view.View(l.head.ID))
	for after := int64(0); after < end; {
		rows, next, err := from.chunk(ctx, after, chunkSize)
		if err != nil {
			return err
		}
		if check != nil {
			err = check.fill(ctx, rows)
		} else {
			err = s.fill(ctx, tenantID, rows)
		}
		if err != nil {
			return err
		}
		for i := range rows {
			if !yield(rows[i].Entry, nil) {
				return nil
			}
		}
		if next <= after {
			return nil
		}
		after = next
	}
	return nil
}
