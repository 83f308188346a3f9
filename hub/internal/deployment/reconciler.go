package deployment

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/seed93082962/agenthost/hub/deploy"

	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/ids"
)

// errLost reports that this hub no longer has the lease of a deployment.
var errLost = errors.New("the lease was lost")

// reconciler holds leases, and runs a worker for each.
//
// A lease is free when its holder returned it, or when its beat did not change for the lease time,
// measured by the clock of the hub that takes it. The holder measures from before its last renewal
// and therefore stops earlier. No clocks are compared.
type reconciler struct {
	s       *Service
	id      string // of this reconciler; a restarted hub has another one
	owner   string // of the deployments on the platform: the database; set by the first poll
	wakeups chan struct{}
	ctx     context.Context // until close
	stop    context.CancelFunc
	done    chan struct{}

	running sync.WaitGroup // for all workers, and for inspectRoutes

	mu      sync.Mutex // guards workers
	workers map[string]*worker

	others    map[string]sighting  // leases of other hubs
	closed    map[string]bool      // rows of an older version that this hub cannot open
	moved     map[string]time.Time // since when runtimes on the former platform serve no deployment, by key and revision
	renewedAt time.Time
	listedAt  time.Time
	polled    bool
}

// sighting is the lease of another hub, and since when it has not changed.
type sighting struct {
	lease
	since time.Time
}

// newReconciler returns a reconciler whose caller starts run.
func newReconciler(s *Service) *reconciler {
	ctx, stop := context.WithCancel(context.Background())
	return &reconciler{
		s: s, id: ids.New(), wakeups: make(chan struct{}, 1), ctx: ctx, stop: stop, done: make(chan struct{}),
		workers: map[string]*worker{}, others: map[string]sighting{},
	}
}

func (r *reconciler) close() {
	r.stop()
	<-r.done
}

// wake makes a change of the deployment effective without delay, if this hub has its lease.
func (r *reconciler) wake(key string) {
	r.mu.Lock()
	w := r.workers[key]
	r.mu.Unlock()
	if w != nil && !w.ended() {
		w.wake()
		return
	}

	select {
	case r.wakeups <- struct{}{}:
	default: // it will see this change too
	}
}

func (r *reconciler) run(ctx context.Context) {
	defer close(r.done)
	tick := time.NewTicker(r.s.cfg.LeaseTime / 6)
	defer tick.Stop()
	for {
		if err := r.poll(ctx); err != nil && ctx.Err() == nil {
			r.s.store.Logger.Warn("reconcile deployments", "err", err)
		}

		select {
		case <-tick.C:
		case <-r.wakeups:
		case <-ctx.Done():
			r.end(context.WithoutCancel(ctx))
			return
		}
	}
}

// end ends the workers and returns the leases.
func (r *reconciler) end(ctx context.Context) {
	for _, key := range r.keys() {
		r.release(key)
	}

	r.running.Wait()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if err := returnLeases(ctx, r.s.store.DB.Write(), r.id); err != nil {
		r.s.store.Logger.Warn("return leases", "err", err)
	}
}

// poll renews the leases of this hub, takes free ones, and wakes the workers of changed
// deployments.
func (r *reconciler) poll(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.s.cfg.LeaseTime/2)
	defer cancel()
	if err := r.renew(ctx); err != nil {
		return err
	}

	if r.owner == "" {
		owner, err := readOwner(ctx, r.s.store.DB.Read())
		if err != nil {
			return err
		}

		r.owner = owner
	}

	now := time.Now()
	var known []string // on the platform, before the rows are read
	list := now.Sub(r.listedAt) >= r.s.cfg.LeaseTime
	if list {
		keys, err := r.s.driver.List(ctx, r.owner)
		if err != nil && !errors.Is(err, deploy.ErrUnavailable) {
			r.s.store.Logger.Warn("list deployments", "err", err)
		}

		known, r.listedAt = keys, now
	}

	all, err := readLeases(ctx, r.s.store.DB.Read(), r.s.cfg.Machine)
	if err != nil {
		return err
	}

	if slices.ContainsFunc(all, func(h held) bool { return !h.current && !r.closed[h.Key] }) {
		if r.closed, err = r.s.upgrade(ctx, r.closed); err != nil {
			return err
		}
	}

	others := make(map[string]sighting, len(r.others))
	rows := make(map[string]bool, len(all))
	for _, h := range all {
		rows[h.Key] = true
		if h.Holder == r.id {
			r.hold(ctx, h)
			continue
		}

		r.release(h.Key)
		if !h.current && r.closed[h.Key] && h.wanted { // its runtime continues, and a hub with the key continues the deployment
			continue
		}

		seen, ok := r.others[h.Key]
		if !ok || seen.lease != h.lease {
			seen = sighting{h.lease, now}
		}

		others[h.Key] = seen
		// A hub that starts on SQLite is the only one: the former one has ended, or is fenced.
		alone := !r.polled && r.s.store.DB.Engine() == db.SQLite
		if h.Holder == "" || alone || now.Sub(seen.since) >= r.s.cfg.LeaseTime {
			if err := r.take(ctx, h); err != nil {
				return err
			}

			delete(others, h.Key)
		}
	}

	if !r.polled && r.s.cfg.Gateway != nil { // with all workers, so that it needs only one listing
		r.running.Go(func() { r.inspectRoutes(r.ctx, r.owner) })
	}

	r.others, r.polled = others, true
	r.s.metrics.others.Store(int64(len(others)))
	r.s.metrics.polledAt.Store(now.UnixMilli())
	for _, key := range r.keys() {
		if !rows[key] {
			r.release(key)
		}
	}

	if list && r.s.cfg.Former != nil {
		if err := r.stopFormer(ctx, r.s.cfg.Former); err != nil {
			r.s.store.Logger.Warn("stop runtimes of the former deployer", "err", err)
		}
	}

	return r.stopUnknown(ctx, known, rows)
}

// keys returns the keys of the workers.
func (r *reconciler) keys() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Keys(r.workers))
}

// all returns the workers.
func (r *reconciler) all() []*worker {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Values(r.workers))
}

// renew renews the leases of this hub a few times within the lease time.
func (r *reconciler) renew(ctx context.Context) error {
	now := time.Now()
	if len(r.keys()) == 0 || now.Sub(r.renewedAt) < r.s.cfg.LeaseTime/3 {
		return nil
	}

	mine, err := renewLeases(ctx, r.s.store.DB.Write(), r.id)
	if err != nil {
		return err
	}

	r.renewedAt = now
	renewed := map[string]int64{}
	for _, h := range mine {
		renewed[h.Key] = h.Fence
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	for key, w := range r.workers {
		if renewed[key] == w.lease.Fence {
			w.renewed(now)
		}
	}

	return nil
}

// take takes a free lease.
func (r *reconciler) take(ctx context.Context, h held) error {
	now := time.Now()
	mine, taken := h, false
	err := r.s.store.DB.Tx(ctx, func(tx *sql.Tx) (err error) {
		fence, err := nextFence(ctx, tx)
		if err != nil {
			return err
		}

		mine.Holder, mine.Fence = r.id, fence
		taken, err = takeLease(ctx, tx, h, r.id, r.s.cfg.Machine, fence)
		return err
	})
	if err != nil || !taken {
		return err
	}

	r.s.metrics.leases.Add(ctx, 1, leaseTaken)
	r.s.store.Logger.Info("deployment is controlled by this hub", slog.String("deployment", h.Key))
	r.start(mine, now)
	return nil
}

// hold starts a worker for a lease of this hub that has none, and wakes that of a changed
// deployment.
func (r *reconciler) hold(ctx context.Context, h held) {
	r.mu.Lock()
	w := r.workers[h.Key]
	r.mu.Unlock()
	if w != nil && !w.ended() {
		if w.edition.Load() < h.Edition {
			w.wake()
		}

		return
	}

	now := time.Now()
	if ok, err := beat(ctx, r.s.store.DB.Write(), h); err != nil || !ok {
		return // the next poll repeats it
	}

	r.start(h, now)
}

func (r *reconciler) start(h held, now time.Time) {
	w := newWorker(r.s, h, r.owner, now)
	r.running.Go(w.run)
	r.mu.Lock()
	r.workers[h.Key] = w
	r.mu.Unlock()
}

// release ends the worker of a lease that this hub does not have. It does not wait for a call of
// the driver, which would delay the renewal of the other leases: the claim of that call is fenced.
func (r *reconciler) release(key string) {
	r.mu.Lock()
	w := r.workers[key]
	delete(r.workers, key)
	r.mu.Unlock()
	if w != nil {
		w.stop()
	}
}

// stopUnknown stops the runtimes that no row knows. Their data remains, because another backup may
// know them. keys were listed before the rows were read.
func (r *reconciler) stopUnknown(ctx context.Context, keys []string, rows map[string]bool) error {
	for _, key := range keys {
		if rows[key] {
			continue
		}

		obs, err := r.s.driver.Observe(ctx, key)
		if err != nil || !slices.ContainsFunc(obs.Runtimes, mayRun) {
			continue
		}

		r.s.store.Logger.Warn("runtimes that the database does not know are stopped: was it restored from a backup?", "deployment", key)
		if err := r.stopAll(ctx, key, obs.Runtimes, 0); err != nil {
			return err
		}
	}

	return nil
}

// stopAll stops runtimes with a fence that is higher than known, unless there is a row by now,
// whose fence is higher than this one.
func (r *reconciler) stopAll(ctx context.Context, key string, all []deploy.Runtime, known int64) error {
	claim, exists := deploy.Claim{Key: key, Owner: r.owner}, false
	err := r.s.store.DB.Tx(ctx, func(tx *sql.Tx) (err error) {
		if claim.Fence, err = raiseFence(ctx, tx, known); err != nil {
			return err
		}

		exists, err = hasKey(ctx, tx, key)
		return err
	})
	if err != nil || exists {
		return err
	}

	for _, one := range all {
		err := r.s.driver.Stop(ctx, claim, one.Revision, 0)
		if fenced, ok := errors.AsType[*deploy.FencedError](err); ok && known == 0 {
			return r.stopAll(ctx, key, all, fenced.Fence)
		}

		if err != nil {
			r.s.store.Logger.Warn("stop unknown runtime", "deployment", key, "err", err)
		}
	}

	return nil
}
