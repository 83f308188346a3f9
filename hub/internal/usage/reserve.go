package usage

import (
	"context"
	"database/sql"
	"sync"
	"time"

	"github.com/seed93082962/agenthost/internal/db"
)

// settleEvery is the interval of [Service.Settle].
const settleEvery = 3 * time.Second

// direct has the runs outside of chats whose ends could not be stored.
type direct struct {
	mu    sync.Mutex // guards ended
	ended []*Direct
}

// retry adds runs whose ends are to be stored again.
func (r *direct) retry(runs ...*Direct) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = append(r.ended, runs...)
}

// full reports whether no further runs should begin, whose ends would need memory.
func (r *direct) full() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.ended) >= maxEnded
}

// take returns the runs of retry, and removes them.
func (r *direct) take() []*Direct {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.ended
	r.ended = nil
	return all
}

// Settle stores the ends of runs of [Direct.Begin] that could not be stored before, until ctx ends.
// It counts the runs of hubs that were removed, as runs without a report. One that was only
// suspended replaces these counts at the ends of its runs.
func (s *Service) Settle(ctx context.Context) {
	tick := time.NewTicker(settleEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			s.endLast(context.WithoutCancel(ctx))
			return
		}

		s.endAgain(ctx)
		if err := s.endFree(ctx); err != nil && ctx.Err() == nil {
			s.store.Logger.Warn("count runs of hubs that have ended", "err", err)
		}
	}
}

// endFree counts the runs of hubs that have ended.
func (s *Service) endFree(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, storeWithin)
	defer cancel()
	for {
		found, err := anyFreeReserve(ctx, s.store.Read())
		if err != nil || !found {
			return err
		}

		var counted []CountedRun
		err = s.store.DB.Tx(ctx, func(tx *sql.Tx) error {
			runs, err := claimFreeReserves(ctx, tx)
			if err != nil || len(runs) == 0 {
				return err
			}

			counted, _, err = s.Record(ctx, tx, runs...)
			return err
		})
		if err != nil {
			return err
		}

		s.Observe(counted...)
	}
}

// endAgain stores the ends of runs that could not be stored before, for up to 10 s, and reports
// whether that has succeeded. It stores many in one transaction.
func (s *Service) endAgain(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, storeWithin)
	defer cancel()
	all := s.direct.take()
	for len(all) > 0 {
		some := all[:min(storeBatch, len(all))]
		err := s.storeEnds(ctx, some...)
		if err != nil && (ctx.Err() != nil || db.Unavailable(err)) {
			s.direct.retry(all...)
			return false
		}

		if err != nil { // the counts of one of them are rejected
			for _, d := range some {
				d.end(ctx)
			}
		}

		all = all[len(some):]
	}

	return true
}

// endLast is endAgain at the end of the hub, which waits for the database.
func (s *Service) endLast(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, storeWithin)
	defer cancel()
	for !s.endAgain(ctx) && pause(ctx) {
	}

	if lost := len(s.direct.take()); lost > 0 {
		s.store.Logger.Error("runs outside of chats are not counted: the database is unavailable at the end of the hub", "runs", lost)
	}
}
