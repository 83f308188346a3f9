package deployment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/wire"

	"github.com/seed93082962/agenthost/runtime/agent"
)

// watch checks whether the agent of a runtime is ready.
func (w *worker) watch(ctx context.Context, d deployment, v *view, a *attempt, r deploy.Runtime) (time.Duration, error) {
	same := a.RuntimeURL == r.URL // otherwise, it was started again by another program
	a.RuntimeURL, a.StartedAt = r.URL, r.StartedAt
	w.note(v, a, conditionApplied, true, "")
	was := (a.State == wire.StateRunning || a.State == wire.StateUnhealthy) && same
	var key agent.Secret
	if !was {
		c, err := w.s.open(d)
		if err != nil {
			return 0, err
		}

		key = c.APIKey
	}

	err := w.probe(ctx, d, r.URL, key)
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}

	if err != nil && r.Message != "" {
		err = errors.New(r.Message)
	}

	seen := w.seen(r)
	seen.prepare(r, w.s.cfg.PrepareTimeout)
	age := time.Since(seen.since) // times of the platform may be those of a clock that was set
	switch {
	case err == nil:
		seen.misses = 0
		a.State = wire.StateRunning
		a.Health = healthHealthy
		a.Error = ""
		a.RetryAt = time.Time{}
		// The start is also compared, because another hub may have observed the runtime before.
		if max(age, w.s.store.Now().Sub(r.StartedAt)) >= stableAfter {
			a.Failures = 0
		}

		w.note(v, a, conditionReady, true, "")
		if a == &v.attempt {
			w.noteServers(ctx, d, v, seen)
		}

		return w.s.cfg.WatchEvery, nil
	case was:
		if seen.misses++; seen.misses == 1 {
			seen.missed = time.Now()
		}

		if seen.misses < maxMisses {
			return w.s.cfg.WatchEvery, nil
		}

		a.State, a.Health, a.Error = wire.StateUnhealthy, healthUnhealthy, text(err)
		w.note(v, a, conditionReady, false, text(err))
		if time.Since(seen.missed) < w.s.cfg.StartTimeout {
			return w.s.cfg.WatchEvery, nil
		}

		v.RestartCount++
		err = fmt.Errorf("The runtime did not respond for %v: %s", w.s.cfg.StartTimeout, text(err)) //nolint:staticcheck // for the user
	case age < w.s.cfg.StartTimeout:
		a.State, a.Health = wire.StateStarting, healthUnknown
		w.note(v, a, conditionReady, false, text(err))
		return w.soon(), nil
	default:
		err = fmt.Errorf("The agent was not ready after %v: %s", w.s.cfg.StartTimeout, text(err)) //nolint:staticcheck // for the user
	}

	w.failed(v, a, err.Error())
	_ = w.end(ctx, r.Revision, 0) // the next step repeats it
	return 0, nil                 // it is killed if it does not end, and then started again
}

// served reports whether an attempt is that of the revision that serves, which was ready once.
func (v *view) served(a *attempt) bool { return v.Serving != 0 && a == &v.attempt }

// failed counts a failure. The next attempt is made after a pause. After too many of them, only a
// revision that was ready once is started again: the cause may be outside of it.
func (w *worker) failed(v *view, a *attempt, message string) {
	a.Failures++
	a.Error, a.Health, a.RuntimeURL = message, healthUnknown, ""
	w.note(v, a, conditionReady, false, message)
	if a == &v.attempt {
		v.removeCondition(conditionServers)
	}

	if a.Failures >= maxFailures {
		a.State = wire.StateFailed
		if v.served(a) {
			a.RetryAt = w.s.store.Now().Add(w.s.cfg.RetryEvery)
			return
		}

		w.condition(v, conditionProgressing, false, "The revision did not become ready: "+message)
		return
	}

	a.RetryAt = w.s.store.Now().Add(min(w.s.cfg.Backoff<<(a.Failures-1), maxBackoff))
	if a.State != wire.StateDeploying {
		a.State = wire.StateStarting
	}
}
