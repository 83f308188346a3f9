package usage

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"time"

	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/internal/db"
)

// renewEvery is the interval in which a hub extends its reserves.
const renewEvery = store.LeaseTime / 5

// direct has the reserves of this hub for runs outside of chats.
type direct struct {
	mu    sync.Mutex // guards the fields below
	held  int        // runs that perhaps have a reserve in the database
	ended []*Direct  // runs whose ends could not be stored
}

func (r *direct) enter() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held++
}

func (r *direct) leave(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held -= n
}

// retry adds runs whose ends are to be stored again.
func (r *direct) retry(runs ...*Direct) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = append(r.ended, runs...)
}

// any reports whether this hub perhaps has reserves, or ends to store.
func (r *direct) any() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.held > 0 || len(r.ended) > 0
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

// RenewReserves extends the reserves of the runs of [Direct.Begin] in progress in this process, and
// stores ends that could not be stored before, until ctx ends. It counts the runs of other hubs
// whose reserves were not extended for 15 s, as runs without a report: their hubs were killed. One
// that was only suspended replaces these counts at the ends of its runs.
func (s *Service) RenewReserves(ctx context.Context) {
	tick := time.NewTicker(renewEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			s.endLast(context.WithoutCancel(ctx))
			return
		}
		if s.direct.any() {
			s.renewReserves(ctx)
			s.endAgain(ctx)
		}
		if err := s.endExpired(ctx); err != nil && ctx.Err() == nil {
			s.store.Logger.Warn("count runs of hubs that have ended", "err", err)
		}
	}
}

func (s *Service) renewReserves(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, storeWithin)
	defer cancel()
	err := s.store.DB.Tx(ctx, func(tx *sql.Tx) error {
		return extendReserves(ctx, tx, s.hubID, s.store.Now())
	})
	if err != nil && !errors.Is(context.Cause(ctx), context.Canceled) { // the hub does not stop
		s.store.Logger.Warn("extend reserves of budgets", "err", err)
	}
}

// endExpired counts the runs of hubs that have ended.
func (s *Service) endExpired(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, storeWithin)
	defer cancel()
	for {
		found, err := anyExpiredReserve(ctx, s.store.Read(), s.store.Now())
		if err != nil || !found {
			return err
		}
		var counted []Run
		err = s.store.DB.Tx(ctx, func(tx *sql.Tx) error {
			runs, err := claimExpiredReserves(ctx, tx, s.store.Now())
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
// whether that has succeeded. It stores many in one transaction: after an outage, the reserves of
// runs in progress are extended in time.
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
