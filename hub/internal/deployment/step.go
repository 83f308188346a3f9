package deployment

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/wire"
)

const (
	maxFailures = 5                // in sequence, until a deployment has failed
	maxBackoff  = time.Minute      // between them
	stableAfter = 10 * time.Second // a runtime that is ready for this long is not in a crash loop
	maxMisses   = 3                // failed probes, until a running deployment is unhealthy

	serversEvery = 5 // probes, until the state of the MCP servers is read again
	errorLines   = 5
	maxError     = 2000 // bytes
)

// step moves the deployment towards its desired state. It returns what it observed, and the pause
// until the next step. An error of the driver is part of the view.
func (w *worker) step(ctx context.Context, d deployment) (view, time.Duration, error) {
	v := d.view
	v.Conditions = slices.Clone(v.Conditions)
	if v.Rollout != nil {
		rollout := *v.Rollout
		v.Rollout = &rollout
	}

	obs, err := w.s.driver.Observe(ctx, w.ref)
	if err != nil {
		v.Error = text(err)
		return v, w.s.cfg.WatchEvery, nil
	}

	if d.Desired == desiredAbsent {
		return w.purge(ctx, d, v, obs)
	}

	if n := len(obs.Runtimes); n > 0 && obs.Runtimes[n-1].Revision > d.Revision {
		return d.view, 0, w.restore(ctx, d, obs.Runtimes[n-1].Revision)
	}

	if d.Rotation != "" {
		changed, err := w.rotate(ctx, d, obs)
		if changed {
			return d.view, 0, nil
		}

		if err != nil {
			w.s.store.Logger.Warn("rotate key of deployment", "deployment", d.Key, "err", err)
		}
	}

	if d.Desired == desiredStopped {
		return w.halt(ctx, d, v, obs)
	}

	return w.advance(ctx, d, v, obs)
}

// purge deletes what the driver has of the deployment, and then the row. A route that the gateway
// does not remove is removed later, also without the row.
func (w *worker) purge(ctx context.Context, d deployment, v view, obs deploy.Observed) (view, time.Duration, error) {
	w.publish(ctx, d, &v, deploy.Route{})
	if obs.Exists {
		v.Error = ""
		if err := w.call(ctx, "delete", 0, func(ctx context.Context) error { return w.s.driver.Delete(ctx, w.ref) }); err != nil {
			v.Error = text(err)
			return v, w.s.cfg.WatchEvery, nil
		}

		return v, w.soon(), nil
	}

	err := w.own(ctx, func(tx *sql.Tx) error {
		return errors.Join(
			deleteHeld(ctx, tx, d), deleteReaders(ctx, tx, d.TenantID, d.KeyDigest), insertTombstone(ctx, tx, d, w.s.store.Now()),
		)
	})
	return d.view, 0, err // the next round finds no row, or the one of a new deployment
}

// halt removes the route and stops all runtimes, also if the route is not removed.
func (w *worker) halt(ctx context.Context, d deployment, v view, obs deploy.Observed) (view, time.Duration, error) {
	pause := w.publish(ctx, d, &v, deploy.Route{})
	w.condition(&v, conditionReady, false, "The deployment is stopped.")
	v.removeCondition(conditionServers)
	if !slices.ContainsFunc(obs.Runtimes, mayRun) {
		v.State, v.Error = wire.StateStopped, ""
		return v, min(idlePause, pause), nil
	}

	v.State = wire.StateStopping
	for _, r := range obs.Runtimes {
		if !mayRun(r) {
			continue
		}

		if err := w.end(ctx, r.Revision, 0); err != nil {
			v.Error = text(err)
		}
	}

	return v, w.soon(), nil
}

// main is the revision whose state is that of the deployment.
func (d deployment) main() int64 { return cmp.Or(d.Serving, d.Revision) }

// maxDraining bounds the revisions whose runs continue. The next one starts when one of them has
// ended.
const maxDraining = 3

// advance makes the revision that serves run, and the last revision next to it. The last one serves
// as soon as it is ready.
func (w *worker) advance(ctx context.Context, d deployment, v view, obs deploy.Observed) (view, time.Duration, error) {
	moving := w.servedByFormer(ctx, d, obs)
	pause := w.s.cfg.WatchEvery
	if !moving {
		var err error
		if pause, err = w.bring(ctx, d, &v, &v.attempt, d.main(), obs); err != nil {
			return v, 0, err
		}
	}

	switch {
	case v.Serving == 0 && v.State == wire.StateRunning:
		v.Serving = d.Revision
		w.condition(&v, conditionProgressing, true, "")
	case v.Serving == d.Revision && !moving:
		v.Rollout = nil
	case v.Serving != 0:
		next, err := w.roll(ctx, d, &v, obs)
		if err != nil {
			return v, 0, err
		}

		pause = min(pause, next)
	}

	if w.s.cfg.Gateway != nil && (v.Serving != d.Serving || v.State != d.State) {
		return v, 0, nil // it is stored before the gateway is called, which may be slow
	}

	published := w.publish(ctx, d, &v, w.route(ctx, d, &v))
	return v, min(pause, published, w.retire(ctx, d, &v, obs)), nil
}

// roll makes the last revision ready next to the one that serves, and then lets it serve.
func (w *worker) roll(ctx context.Context, d deployment, v *view, obs deploy.Observed) (time.Duration, error) {
	if len(v.Draining) >= maxDraining && obs.Runtime(d.Revision).Phase == "" {
		w.condition(v, conditionProgressing, true, "The revision starts when the runs of an earlier one have ended.")
		return w.s.cfg.WatchEvery, nil
	}

	if v.Rollout == nil {
		v.Rollout = &attempt{State: wire.StateDeploying, Health: healthUnknown}
		w.condition(v, conditionProgressing, true, "The revision starts.")
	}

	pause, err := w.bring(ctx, d, v, v.Rollout, d.Revision, obs)
	if err != nil || v.Rollout.State != wire.StateRunning {
		return pause, err
	}

	v.Draining = append(v.Draining, v.Serving)
	v.attempt, v.Serving, v.Rollout = *v.Rollout, d.Revision, nil
	v.removeCondition(conditionServers) // of the former one
	w.condition(v, conditionApplied, true, "")
	w.condition(v, conditionReady, true, "")
	w.condition(v, conditionProgressing, true, "")
	return pause, nil
}

// retire ends the runtimes of other revisions. Those that served end after their runs, and not
// before all hubs and the gateway send new runs to the next one.
func (w *worker) retire(ctx context.Context, d deployment, v *view, obs deploy.Observed) time.Duration {
	pause := idlePause
	var draining []int64
	for _, r := range obs.Runtimes {
		if r.Revision == v.Serving || r.Revision == d.Revision {
			continue
		}

		pause = w.s.cfg.WatchEvery
		served := slices.Contains(v.Draining, r.Revision) && alive(r)
		var err error
		switch seen := w.seen(r); {
		case !served:
			err = w.call(ctx, "discard", r.Revision, func(ctx context.Context) error { return w.s.driver.Discard(ctx, w.ref, r.Revision) })
		case w.holds(): // its time begins afterwards, also if it had begun before
			seen.retired = time.Time{}
		case seen.retired.IsZero():
			seen.retired = time.Now()
			request, _ := w.s.request(ctx, w.s.store.Read(), d, r.Revision) // otherwise, the default limit
			seen.runLimit = request.RunLimit()
		case time.Since(seen.retired) >= w.s.retireAfter():
			err = w.end(ctx, r.Revision, seen.runLimit)
		}

		if err != nil {
			w.s.store.Logger.Warn("end former revision", "deployment", d.Key, "revision", r.Revision, "err", err)
		}

		if served {
			draining = append(draining, r.Revision)
		}
	}

	v.Draining = append([]int64{}, draining...)
	return pause
}

// bring makes the runtime of a revision run until its agent is ready. a is part of v.
func (w *worker) bring(ctx context.Context, d deployment, v *view, a *attempt, revision int64, obs deploy.Observed) (time.Duration, error) {
	r, now := obs.Runtime(revision), w.s.store.Now()
	switch {
	case a.State == wire.StateFailed && mayRun(r): // what still runs of it
		_ = w.end(ctx, revision, 0) // the next step repeats it
		return w.s.cfg.WatchEvery, nil
	case a.State == wire.StateFailed && !v.served(a):
		return idlePause, nil
	case now.Before(a.RetryAt) && a.RetryAt.Sub(now) <= max(maxBackoff, w.s.cfg.RetryEvery): // a later time was stored before the clock was set back
		return min(a.RetryAt.Sub(now), w.s.cfg.WatchEvery), nil
	case r.Phase == deploy.Running:
		return w.watch(ctx, d, v, a, r)
	case r.Phase == deploy.Stopping:
		_ = w.end(ctx, revision, 0) // the next step repeats it
		return w.soon(), nil
	case r.Phase == deploy.Exited && !r.StartedAt.Equal(a.Counted):
		a.Counted = r.StartedAt
		w.failed(v, a, "The runtime ended: "+w.reason(ctx, r))
		return 0, nil
	}

	if r.Phase == deploy.Exited {
		v.RestartCount++
	}

	a.State = wire.StateStarting
	if r.Phase == "" {
		a.State = wire.StateDeploying
	}

	former := a.RuntimeURL
	a.Health, a.RuntimeURL = healthUnknown, ""
	if a == &v.attempt { // the next revision still has the reason why it ended
		w.condition(v, conditionReady, false, "The runtime is not running.")
	}

	if former != "" {
		return 0, nil // it is stored before the driver is called, which may be slow: no run is sent there
	}

	err := w.call(ctx, "apply", revision, func(ctx context.Context) error { return w.apply(ctx, d, revision) })
	switch {
	case errors.Is(err, deploy.ErrUnavailable):
		a.Error = text(err)
		return w.s.cfg.WatchEvery, nil
	case err != nil:
		w.note(v, a, conditionApplied, false, text(err))
		w.failed(v, a, text(err))
		return 0, nil
	}

	return w.soon(), nil
}

// end requests a runtime to end. A driver kills a runtime that does not end in time.
func (w *worker) end(ctx context.Context, revision int64, patience time.Duration) error {
	return w.call(ctx, "stop", revision, func(ctx context.Context) error {
		return w.s.driver.Stop(ctx, w.ref, revision, patience)
	})
}
