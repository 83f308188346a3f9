package deployment

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/seed93082962/agenthost/hub/deploy"

	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/client"
)

// worker brings one deployment to its desired state while this hub controls it.
type worker struct {
	s       *Service
	key     string
	ref     deploy.Ref // of the deployment in this round
	wakeups chan struct{}
	ctx     context.Context // of run; it has ended with run
	stop    context.CancelFunc

	edition atomic.Int64 // of the row that the worker knows
	state   atomic.Value // of the deployment, a string, for metrics

	called   bool // the driver was called since the row was read
	quick    int  // steps since the last change
	runtimes map[int64]*sighted

	published published
	listed    atomic.Pointer[listing] // by inspectRoutes

	rotation  string // that the worker has seen, and since when
	rotatedAt time.Time
	restarts  int // of the deployment for this rotation
}

// sighted is what a worker remembers of the runtime of a revision.
type sighted struct {
	started  time.Time // of the runtime, and since when it is observed, by this hub's clock
	since    time.Time
	prepared time.Time // since when the platform prepares it; zero if it does not
	fault    error     // of the last probe; nil: the agent is ready
	reason   string    // why the runtime ended
	unusable bool      // another start would end for the same reason
	servers  []string  // the faults of its MCP servers; nil: not read yet
	listed   time.Time // when they were read
	misses   int       // failed probes in sequence
	missed   time.Time // when the first of them failed
	retired  time.Time // when another revision was first seen to serve
	runLimit time.Duration
}

// seen returns what the worker remembers of a runtime.
func (w *worker) seen(r deploy.Runtime) *sighted {
	s := w.runtimes[r.Revision]
	if s == nil || !s.started.Equal(r.StartedAt) {
		s = &sighted{started: r.StartedAt, since: time.Now()}
		w.runtimes[r.Revision] = s
	}

	return s
}

// prepare delays the bounds of the time to start while the platform prepares a runtime.
func (s *sighted) prepare(r deploy.Runtime, most time.Duration) {
	now := time.Now()
	switch {
	case !r.Preparing:
		s.prepared = time.Time{}
		return
	case s.prepared.IsZero():
		s.prepared = now
	}

	if now.Sub(s.prepared) < most {
		s.since, s.missed = now, now
	}
}

// probed counts the result of a probe.
func (s *sighted) probed(fault error) {
	s.fault = fault
	if fault == nil {
		s.misses = 0
		return
	}

	if s.misses++; s.misses == 1 {
		s.missed = time.Now()
	}
}

func newWorker(s *Service, key string) *worker {
	w := &worker{s: s, key: key, wakeups: make(chan struct{}, 1), runtimes: map[int64]*sighted{}}
	w.ctx, w.stop = context.WithCancel(context.Background())
	return w
}

func (w *worker) wake() {
	select {
	case w.wakeups <- struct{}{}:
	default: // it will see this change too
	}
}

func (w *worker) run() {
	ctx := w.ctx
	defer w.stop()
	defer func() {
		if w.s.reconciler.ctx.Err() == nil { // otherwise, this hub ends
			w.s.metrics.leases.Add(context.WithoutCancel(ctx), 1, leaseLost)
			w.s.store.Logger.Info("deployment was deleted, or is controlled by another hub", "deployment", w.key)
		}

		if w.called {
			w.handOver()
		}
	}()
	for {
		pause, err := w.round(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, errLost):
			return
		case errors.Is(err, errChanged):
			pause = 0
		case err != nil:
			w.s.store.Logger.Warn("reconcile deployment", "deployment", w.key, "err", err)
			pause = time.Second
		}

		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-w.wakeups:
			w.quick = 0
		case <-ctx.Done():
		}

		timer.Stop()
	}
}

// handOver is called if this hub may have lost the deployment during its last call of the driver,
// which has perhaps replaced API keys by former ones. The hub that controls the deployment then
// sets the keys again.
func (w *worker) handOver() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if err := repeatKeys(ctx, w.s.store.DB.Write(), w.key); err != nil {
		w.s.store.Logger.Warn("set keys of deployment again", "deployment", w.key, "err", err)
	}
}

// Pauses between steps while the state changes: the first one doubles.
const (
	firstPause = 10 * time.Millisecond
	longPause  = 500 * time.Millisecond
)

// soon returns the pause of a deployment whose state changes.
func (w *worker) soon() time.Duration {
	pause := min(firstPause<<min(w.quick/4, 10), longPause)
	w.quick++
	return pause
}

const restoredMessage = "The platform knows a later state of this deployment than the database, which was restored from a backup or has lost " +
	"changes. The hub controls the deployment again, with the configuration in the database."

// restore is called if the platform has a revision that the database does not know: the database
// was restored from a backup. The next round applies the request of the database as a revision
// after that one.
func (w *worker) restore(ctx context.Context, d deployment, known int64) error {
	d.condition(w.s.store.Now(), conditionRestored, true, restoredMessage)
	d.Rollout, d.Serving = nil, 0
	err := w.own(ctx, func(tx *sql.Tx) error {
		d := d
		err := w.s.repeat(ctx, tx, &d, d.Revision, known+1)
		if errors.Is(err, errNoRevision) { // that is the error of its next start
			d.Revision, err = known+1, nil
		}

		if err != nil {
			return err
		}

		return saveHeld(ctx, tx, d)
	})
	if err == nil {
		w.s.store.Logger.Warn("the platform knows a later state of a deployment than the database: was it restored from a backup?",
			"deployment", d.Key, "revision", known)
	}

	return err
}

// A runtime is not trusted: a probe takes at most probeTimeout, and maxProbe bounds each response
// in bytes. The list of agents has one agent, and may take a hundred times its size when it is
// decoded.
const (
	probeTimeout = 3 * time.Second
	maxProbe     = 128 << 10
)

func (w *worker) runtime(url string, key agent.Secret) (*client.Client, error) {
	return client.New(client.Config{BaseURL: url, APIKey: string(key), HTTPClient: w.s.client})
}

// probe returns an error if a runtime is not ready. With an API key, it also checks that the
// runtime accepts the key, hosts the agent of the deployment, and could resolve the agent.
func (w *worker) probe(ctx context.Context, d deployment, url string, key agent.Secret) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	runtime, err := w.runtime(url, key)
	if err != nil {
		return err
	}

	if err := runtime.Ready(ctx); err != nil {
		return fmt.Errorf("the runtime is not ready: %w", err)
	}

	if key == "" {
		return nil
	}

	agents, err := runtime.Agents(ctx)
	if err != nil {
		return fmt.Errorf("the runtime does not list its agents: %w", err)
	}

	for _, a := range agents {
		switch {
		case a.ID != d.AgentName:
		case a.Status != "ready":
			return errors.New("the agent is unavailable: the log of the runtime has the reason")
		default:
			return nil
		}
	}

	return errors.New("another runtime responds at this address")
}

// apply sends the request of a revision to the driver, with the present keys and links.
func (w *worker) apply(ctx context.Context, d deployment, revision int64) error {
	c, err := w.s.open(d)
	if err != nil {
		return err
	}

	request, err := w.s.request(ctx, w.s.store.Read(), d, revision)
	if err != nil {
		return err
	}

	if err := w.s.checkDeployment(request.Deployment); err != nil {
		return err
	}

	if err := w.s.cfg.Catalog.Link(ctx, request.CustomTools, request.Skills); err != nil {
		return err
	}

	keys := make([]string, len(c.keys()))
	for i, key := range c.keys() {
		keys[i] = string(key)
	}

	request.Env = map[string]agent.Secret{deploy.EnvAPIKey: agent.Secret(strings.Join(keys, ","))}
	return w.s.driver.Apply(ctx, w.ref, revision, request)
}
