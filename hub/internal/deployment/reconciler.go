package deployment

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/seed93082962/agenthost/hub/deploy"
)

// errLost reports that this hub does not control a deployment.
var errLost = errors.New("this hub does not control the deployment")

// reconciler takes deployments that are free, and runs a worker for each that this hub controls.
type reconciler struct {
	s       *Service
	wakeups chan struct{}
	ctx     context.Context // until close
	stop    context.CancelFunc
	done    chan struct{}

	running sync.WaitGroup // for all workers, and for inspectRoutes

	mu      sync.Mutex // guards workers
	workers map[string]*worker

	closed   map[string]bool      // rows of an older version that this hub cannot open
	moved    map[string]time.Time // since when runtimes on the former platform serve no deployment, by key and revision
	listedAt time.Time
	polled   bool
}

// newReconciler returns a reconciler whose caller starts run.
func newReconciler(s *Service) *reconciler {
	ctx, stop := context.WithCancel(context.Background())
	return &reconciler{
		s: s, wakeups: make(chan struct{}, 1), ctx: ctx, stop: stop, done: make(chan struct{}), workers: map[string]*worker{},
	}
}

func (r *reconciler) close() {
	r.stop()
	<-r.done
}

// wake makes a change of the deployment effective without delay, if this hub controls it.
func (r *reconciler) wake(key string) {
	r.mu.Lock()
	w := r.workers[key]
	r.mu.Unlock()
	if w != nil && w.ctx.Err() == nil {
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
	tick := time.NewTicker(r.s.cfg.WatchEvery)
	defer tick.Stop()
	for {
		if err := r.poll(ctx); err != nil && ctx.Err() == nil {
			r.s.store.Logger.Warn("reconcile deployments", "err", err)
		}

		select {
		case <-tick.C:
		case <-r.wakeups:
		case <-ctx.Done():
			for _, key := range r.keys() {
				r.release(key)
			}

			r.running.Wait()
			return
		}
	}
}

const (
	pollTimeout = 4 * time.Second
	listProbes  = 4 // probes until the deployments of the platform are listed again
)

// poll takes free deployments, and wakes the workers of changed ones.
func (r *reconciler) poll(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	now := time.Now()
	var found []deploy.Ref // on the platform, before the rows are read
	listed := false
	due := now.Sub(r.listedAt) >= listProbes*r.s.cfg.WatchEvery
	if due {
		var err error
		found, err = r.s.driver.List(ctx, r.s.owner)
		if err != nil && !errors.Is(err, deploy.ErrUnavailable) {
			r.s.store.Logger.Warn("list deployments", "err", err)
		}

		listed, r.listedAt = err == nil, now
	}

	all, err := r.take(ctx)
	if err != nil {
		return err
	}

	others := 0
	rows, known := make(map[string]bool, len(all)), make(map[deploy.Ref]bool, len(all))
	for _, h := range all {
		rows[h.Key], known[r.s.ref(h.Key, h.UID)] = true, true
		switch {
		case h.HubID == r.s.store.HubID && !h.free:
			r.hold(h)
			continue
		case !h.free:
			others++
		}

		r.release(h.Key)
	}

	if !r.polled && r.s.cfg.Gateway != nil { // with all workers, so that it needs only one listing
		r.running.Go(func() { r.inspectRoutes(r.ctx) })
	}

	r.polled = true
	r.s.metrics.others.Store(int64(others))
	for _, key := range r.keys() {
		if !rows[key] {
			r.release(key)
		}
	}

	if due && r.s.cfg.Former != nil {
		if err := r.stopFormer(ctx, r.s.cfg.Former); err != nil {
			r.s.store.Logger.Warn("stop runtimes of the former deployer", "err", err)
		}
	}

	if listed {
		if err := r.bury(ctx, found, known); err != nil {
			return err
		}
	}

	r.s.metrics.polledAt.Store(now.UnixMilli())
	return nil
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

// take takes the deployments that are free, and returns the rows of all.
func (r *reconciler) take(ctx context.Context) ([]held, error) {
	all, err := readRows(ctx, r.s.store.DB.Read(), r.s.cfg.Machine)
	if err != nil {
		return nil, err
	}

	if slices.ContainsFunc(all, func(h held) bool { return !h.current && !r.closed[h.Key] }) {
		if r.closed, err = r.s.upgrade(ctx, r.closed); err != nil {
			return nil, err
		}
	} else if !slices.ContainsFunc(all, func(h held) bool { return h.free }) {
		return all, nil
	}

	var taken []string
	err = r.s.store.DB.Tx(ctx, func(tx *sql.Tx) error {
		if err := r.s.store.Own(ctx, tx); err != nil {
			return err
		}

		var err error
		taken, err = takeFree(ctx, tx, r.s.store.HubID, r.s.cfg.Machine)
		return err
	})
	if err != nil || len(taken) == 0 {
		return all, err
	}

	r.s.metrics.leases.Add(ctx, int64(len(taken)), leaseTaken)
	for _, key := range taken {
		r.s.store.Logger.Info("deployment is controlled by this hub", "deployment", key)
	}

	return readRows(ctx, r.s.store.DB.Read(), r.s.cfg.Machine)
}

// hold starts a worker for a deployment of this hub that has none, and wakes that of a changed
// deployment.
func (r *reconciler) hold(h held) {
	r.mu.Lock()
	w := r.workers[h.Key]
	r.mu.Unlock()
	if w != nil && w.ctx.Err() == nil {
		if w.edition.Load() < h.Edition {
			w.wake()
		}

		return
	}

	w = newWorker(r.s, h.Key)
	r.running.Go(w.run)
	r.mu.Lock()
	r.workers[h.Key] = w
	r.mu.Unlock()
}

// release ends the worker of a deployment that this hub does not control. It does not wait for a
// call of the driver.
func (r *reconciler) release(key string) {
	r.mu.Lock()
	w := r.workers[key]
	delete(r.workers, key)
	r.mu.Unlock()
	if w != nil {
		w.stop()
	}
}
