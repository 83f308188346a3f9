package usage

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"time"

	"github.com/seed93082962/agenthost/hub/store"
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

func (r *direct) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held--
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

// take returns the runs of retry, and removes them.
func (r *direct) take() []*Direct {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.ended
	r.ended = nil
	return all
}

// RenewReserves extends the reserves of the runs of BeginDirect in progress in this process, and
// stores ends that could not be stored before, until ctx ends. Without it, a reserve ends after 15 s.
//
// A hub that was suspended, or did not reach the database, for longer than this extends its reserves
// again when it continues. In between, they do not count: the limit may be exceeded by what its runs
// use. Their tokens count at their ends.
func (s *Service) RenewReserves(ctx context.Context) {
	tick := time.NewTicker(renewEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			s.endAgain(context.WithoutCancel(ctx))
			return
		}
		if s.direct.any() {
			s.renewReserves(ctx)
			s.endAgain(ctx)
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

// endAgain stores the ends of runs that could not be stored before.
func (s *Service) endAgain(ctx context.Context) {
	all := s.direct.take()
	for i, d := range all {
		if !d.end(ctx) { // perhaps after a long time: the reserves are extended first
			s.direct.retry(all[i+1:]...)
			return
		}
	}
}
