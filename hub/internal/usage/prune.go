package usage

import "context"

// pruneRows is the number of rows of one transaction of Prune.
const pruneRows = 1_000

// Prune deletes the rows of runs that are older than the retention, in small transactions. The sums
// of days and weeks, which reports and budgets read, remain.
func (s *Service) Prune(ctx context.Context) {
	if s.retention <= 0 {
		return
	}

	before := s.store.Now().Add(-s.retention)
	var total int64
	for {
		n, err := deleteRuns(ctx, s.store.DB, before)
		total += n
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			s.store.Logger.Error("prune usage of runs", "err", err)
			return
		case n > 0:
			continue
		case total > 0:
			s.store.Logger.Info("usage of runs was pruned", "rows", total)
		}

		return
	}
}
