package deployment

import (
	"context"
	"database/sql"
	"errors"
	"reflect"
	"slices"
	"time"

	"github.com/seed93082962/agenthost/hub/deploy"

	"github.com/seed93082962/agenthost/runtime/agent"
)

// roundTimeout bounds one step, which is short: drivers do not wait for runtimes.
const roundTimeout = 30 * time.Second

// round observes the deployment, stores its next state, makes the calls of this step, and stores
// their errors. It returns the pause until the next step.
func (w *worker) round(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, roundTimeout)
	defer cancel()
	d, err := readHeld(ctx, w.s.store.Read(), w.key, w.s.store.HubID)
	if err != nil {
		return 0, err
	}

	w.ref = w.s.ref(d.Key, d.UID)
	w.edition.Store(d.Edition)
	w.called = false
	obs, err := w.observe(ctx, d)
	if err != nil {
		return 0, err
	}

	next, calls, pause := w.s.cfg.next(d, obs)
	if err := w.save(ctx, d, next); err != nil {
		return 0, err
	}

	stored := next
	stored.Conditions = slices.Clone(next.Conditions)
	for _, c := range calls {
		after, err := w.do(ctx, &next, obs, c)
		if err != nil {
			return 0, err
		}

		pause = min(pause, after)
	}

	if err := w.save(ctx, stored, next); err != nil {
		return 0, err
	}

	if pause == soon {
		return w.soon(), nil
	}

	return pause, nil
}

// save stores what this hub changes of a row.
func (w *worker) save(ctx context.Context, d, next deployment) error {
	if !reflect.DeepEqual(next.view, d.view) {
		err := w.own(ctx, func(tx *sql.Tx) error {
			if err := saveHeld(ctx, tx, next); err != nil {
				return err
			}

			return setReady(ctx, tx, d, next.Serving)
		})
		w.s.endpoints.forget(d.agentRef())
		if err != nil {
			return err
		}
	}

	if next.State != d.State {
		w.quick = 0
	}

	w.observeState(ctx, d, next.view)
	return nil
}

// observe returns what the driver and the runtimes of a deployment report.
func (w *worker) observe(ctx context.Context, d deployment) (observation, error) {
	obs := observation{sights: map[int64]sighted{}}
	obs.Observed, obs.err = w.s.driver.Observe(ctx, w.ref)
	if obs.err == nil && d.Desired == desiredRunning {
		obs.moving = w.servedByFormer(ctx, d, obs.Observed)
		for _, r := range obs.Runtimes {
			seen := w.seen(r)
			if err := w.look(ctx, d, r, seen); err != nil {
				return obs, err
			}

			obs.sights[r.Revision] = *seen
		}
	}

	obs.now, obs.at = w.s.store.Now(), time.Now()
	return obs, nil
}

// look updates what the worker knows of a runtime.
func (w *worker) look(ctx context.Context, d deployment, r deploy.Runtime, seen *sighted) error {
	main := r.Revision == d.main()
	a := d.attemptOf(r.Revision)
	switch {
	case !main && r.Revision != d.Revision:
		w.retire(ctx, d, r.Revision, seen)
		return nil
	case r.Phase == deploy.Exited && seen.reason == "":
		seen.reason, seen.unusable = w.reason(ctx, r)
		return nil
	case r.Phase != deploy.Running:
		return nil
	}

	var key agent.Secret
	if !a.hasBeenReady(r) {
		c, err := w.s.open(d)
		if err != nil {
			return err
		}

		key = c.APIKey
	}

	fault := w.probe(ctx, d, r.URL, key)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}

	if fault != nil && r.Message != "" {
		fault = errors.New(r.Message)
	}

	seen.probed(fault)
	seen.prepare(r, w.s.cfg.PrepareTimeout)
	if main && fault == nil && time.Since(seen.listed) >= serversEvery*w.s.cfg.WatchEvery {
		seen.listed = time.Now()
		faults, err := w.servers(ctx, d, r.URL)
		if err != nil {
			w.s.store.Logger.Debug("read MCP servers of deployment", "deployment", d.Key, "err", err)
			return nil
		}

		seen.servers = faults
	}

	return nil
}

// retire begins the time after which a former revision drains, unless the gateway may still send
// new runs to it: the time begins afterwards, also if it had begun before.
func (w *worker) retire(ctx context.Context, d deployment, revision int64, seen *sighted) {
	switch {
	case w.holds():
		seen.retired = time.Time{}
	case seen.retired.IsZero():
		seen.retired = time.Now()
		request, _ := w.s.request(ctx, w.s.store.Read(), d, revision) // otherwise, the default limit
		seen.runLimit = request.RunLimit()
	}
}

// do makes a call, stores its result in d, and returns the longest pause until the next step. It
// fails if the row was not stored: the other calls are then those of a former row.
func (w *worker) do(ctx context.Context, d *deployment, obs observation, c call) (time.Duration, error) {
	switch c.action {
	case restoreRow:
		return 0, w.restore(ctx, *d, c.revision)
	case deleteRow:
		return 0, w.forget(ctx, *d)
	case moveRoute:
		return w.publish(ctx, d, w.route(ctx, *d)), nil
	case removeRoute:
		return w.publish(ctx, d, deploy.Route{}), nil
	case rotateKey:
		err := w.rotate(ctx, d, obs.Runtime(c.revision))
		if err != nil && !errors.Is(err, errChanged) {
			w.s.store.Logger.Warn("rotate key of deployment", "deployment", d.Key, "err", err)
			err = nil
		}

		return w.s.cfg.WatchEvery, err
	}

	err := w.call(ctx, *d, c)
	if err != nil && (c.action == discardRevision || c.patience > 0) {
		w.s.store.Logger.Warn("end former revision", "deployment", d.Key, "revision", c.revision, "err", err)
	}

	if err != nil {
		*d = w.s.cfg.after(*d, c, err, w.s.store.Now())
	}

	return idlePause, nil
}

// callDriver makes a call of the driver.
func (w *worker) callDriver(ctx context.Context, d deployment, c call) error {
	switch c.action {
	case applyRevision:
		return w.apply(ctx, d, c.revision)
	case stopRevision:
		return w.s.driver.Stop(ctx, w.ref, c.revision, c.patience)
	case discardRevision:
		return w.s.driver.Discard(ctx, w.ref, c.revision)
	default: // deleteData
		return w.s.driver.Delete(ctx, w.ref)
	}
}

// forget deletes the row of a deployment of which the platform has nothing.
func (w *worker) forget(ctx context.Context, d deployment) error {
	return w.own(ctx, func(tx *sql.Tx) error {
		return errors.Join(
			deleteHeld(ctx, tx, d), deleteReaders(ctx, tx, d.TenantID, d.KeyDigest), insertTombstone(ctx, tx, d, w.s.store.Now()),
		)
	})
}
