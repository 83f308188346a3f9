package deploy

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/runtime/agent"
)

const (
	maxFailures = 5                // in sequence, until a deployment has failed
	maxBackoff  = time.Minute      // between them
	stableAfter = time.Minute      // a runtime that is ready for this long has not failed
	maxMisses   = 3                // failed probes, until a running deployment is unhealthy
	linkAge     = 30 * time.Minute // of links that are still used
	errorLines  = 5
	maxError    = 2000 // bytes
)

// step calls the driver at most once to change the deployment. It returns what it observed, and the
// pause until the next step. An error of the driver is part of the view, except a lost lease.
func (w *worker) step(ctx context.Context, d deployment) (view, time.Duration, error) {
	v := d.view
	v.Conditions = slices.Clone(v.Conditions)
	obs, err := w.s.driver.Observe(ctx, d.Key)
	if err != nil {
		v.Error = text(err)
		return v, w.s.cfg.WatchEvery, nil
	}
	if obs.Owner != "" && obs.Owner != w.owner { // Apply fails with ErrForeign
		obs = Observed{Phase: Absent}
	}
	if d.Rotation != "" && !d.Purge {
		changed, err := w.rotate(ctx, d, obs)
		switch {
		case lost(err):
			return v, 0, err
		case changed:
			return d.view, 0, nil
		case err != nil:
			w.s.store.Logger.Warn("rotate key of deployment", "deployment", d.Key, "err", err)
		}
	}
	switch {
	case d.Purge:
		return w.purge(ctx, d, v, obs)
	case d.Desired == desiredStopped:
		return w.halt(ctx, v, obs)
	}
	return w.advance(ctx, d, v, obs)
}

// purge deletes what the driver has of the deployment.
func (w *worker) purge(ctx context.Context, d deployment, v view, obs Observed) (view, time.Duration, error) {
	switch {
	case obs.Phase != Absent:
		err := w.call(ctx, w.s.driver.Delete)
		if lost(err) {
			return v, 0, err
		}
		v.Health, v.RuntimeURL, v.Error = healthUnknown, "", ""
		if err != nil {
			v.Error = text(err)
			return v, w.s.cfg.WatchEvery, nil
		}
		return v, w.soon(), nil
	case d.Desired == desiredAbsent:
		err := w.s.store.DB.Tx(ctx, func(tx *sql.Tx) error {
			return errors.Join(deleteHeld(ctx, tx, d), deleteReaders(ctx, tx, d.TenantID, d.KeyDigest))
		})
		if err != nil {
			return v, 0, err
		}
		w.s.endpoints.forget(d.agentRef())
		return d.view, 0, nil // the next round finds no row, or the one of a new deployment
	}
	return d.view, 0, endPurge(ctx, w.s.store.DB.Write(), d)
}

// halt stops the runtime.
func (w *worker) halt(ctx context.Context, v view, obs Observed) (view, time.Duration, error) {
	v.Health, v.RuntimeURL, v.StartedAt = healthUnknown, "", obs.StartedAt
	w.condition(&v, conditionReady, false, "The deployment is stopped.")
	if slices.Contains([]Phase{Absent, Stopped, Exited}, obs.Phase) {
		v.State, v.Error = StateStopped, ""
		return v, idlePause, nil
	}
	v.State = StateStopping
	err := w.call(ctx, w.s.driver.Stop)
	if lost(err) {
		return v, 0, err
	}
	if err != nil {
		v.Error = text(err)
	}
	return v, w.soon(), nil
}

// advance makes the runtime of the current revision run.
func (w *worker) advance(ctx context.Context, d deployment, v view, obs Observed) (view, time.Duration, error) {
	now := w.s.store.Now()
	if v.State == StateFailed {
		return w.rest(ctx, v, obs)
	}
	// A time after that was stored before the clock was set back.
	if now.Before(v.RetryAt) && v.RetryAt.Sub(now) <= maxBackoff {
		return v, min(v.RetryAt.Sub(now), w.s.cfg.WatchEvery), nil
	}
	current := obs.Phase != Absent && obs.Revision == d.Revision
	switch {
	case current && obs.Phase == Running:
		return w.watch(ctx, d, v, obs)
	case current && obs.Phase == Stopping:
		return w.stopping(ctx, v, w.soon())
	case current && obs.Phase == Exited && !obs.StartedAt.Equal(v.Counted):
		v.Counted = obs.StartedAt
		return w.failed(v, "The runtime ended: "+w.reason(ctx, obs)), 0, nil
	}
	v.Health, v.RuntimeURL = healthUnknown, ""
	w.condition(&v, conditionReady, false, "The runtime is not running.")
	v.State = StateStarting
	start := w.s.driver.Start
	if !current {
		v.State = StateDeploying
		start = func(ctx context.Context, claim Claim) error { return w.apply(ctx, d, claim) }
	} else if obs.Phase == Exited {
		v.RestartCount++
	}
	err := w.call(ctx, start)
	switch {
	case lost(err):
		return v, 0, err
	case errors.Is(err, ErrUnavailable):
		v.Error = text(err)
		return v, w.s.cfg.WatchEvery, nil
	case err != nil:
		w.condition(&v, conditionApplied, false, text(err))
		return w.failed(v, text(err)), 0, nil
	}
	return v, w.soon(), nil
}

// rest stops what still runs of a deployment that has failed.
func (w *worker) rest(ctx context.Context, v view, obs Observed) (view, time.Duration, error) {
	if obs.Phase != Running && obs.Phase != Stopping {
		return v, idlePause, nil
	}
	return w.stopping(ctx, v, w.s.cfg.WatchEvery)
}

// stopping repeats the request to stop: a driver kills a runtime that does not end in time.
func (w *worker) stopping(ctx context.Context, v view, pause time.Duration) (view, time.Duration, error) {
	err := w.call(ctx, w.s.driver.Stop)
	if lost(err) {
		return v, 0, err
	}
	return v, pause, nil // another error is repeated
}

// call calls the driver, unless another hub may have taken the lease.
func (w *worker) call(ctx context.Context, do func(context.Context, Claim) error) error {
	claim, err := w.claim()
	if err != nil {
		return err
	}
	return do(ctx, claim)
}

func lost(err error) bool { return errors.Is(err, errLost) || errors.Is(err, ErrFenced) }

// apply sends the request to the driver, with new links if they are old.
func (w *worker) apply(ctx context.Context, d deployment, claim Claim) error {
	c, err := w.s.open(d)
	if err != nil {
		return err
	}
	if age := w.s.store.Now().Sub(d.LinkedAt); age > linkAge || age < 0 {
		if config, err := w.s.cfg.Catalog.Deployment(ctx, d.TenantID, d.AgentName); err == nil {
			c.Request.relink(newRequest(d.Key, d.AgentName, "", config))
		} // otherwise the runtime may still have the files
	}
	return w.s.driver.Apply(ctx, claim, d.Revision, c.Request)
}

// watch checks whether the agent of a runtime is ready.
func (w *worker) watch(ctx context.Context, d deployment, v view, obs Observed) (view, time.Duration, error) {
	v.RuntimeURL, v.StartedAt = obs.URL, obs.StartedAt
	w.condition(&v, conditionApplied, true, "")
	was := v.State == StateRunning || v.State == StateUnhealthy
	var key agent.Secret
	if !was {
		c, err := w.s.open(d)
		if err != nil {
			return v, 0, err
		}
		key = c.APIKey
	}
	err := w.probe(ctx, d, obs.URL, key)
	if ctx.Err() != nil {
		return v, 0, context.Cause(ctx)
	}
	if !w.started.Equal(obs.StartedAt) {
		w.started, w.since, w.misses = obs.StartedAt, time.Now(), 0
	}
	age := time.Since(w.since) // times of the platform may be those of a clock that was set
	switch {
	case err == nil:
		w.misses = 0
		v.State = StateRunning
		v.Health = healthHealthy
		v.Error = ""
		v.RetryAt = time.Time{}
		if age >= stableAfter {
			v.Failures = 0
		}
		w.condition(&v, conditionReady, true, "")
		return v, w.s.cfg.WatchEvery, nil
	case was:
		if w.misses++; w.misses == 1 {
			w.missed = time.Now()
		}
		if w.misses < maxMisses {
			return v, w.s.cfg.WatchEvery, nil
		}
		v.State, v.Health, v.Error = StateUnhealthy, healthUnhealthy, text(err)
		w.condition(&v, conditionReady, false, text(err))
		if time.Since(w.missed) < w.s.cfg.StartTimeout {
			return v, w.s.cfg.WatchEvery, nil
		}
		v.RestartCount++
		return w.giveUp(ctx, v, fmt.Sprintf("The runtime did not respond for %v: %s", w.s.cfg.StartTimeout, text(err)))
	case age < w.s.cfg.StartTimeout:
		v.State, v.Health = StateStarting, healthUnknown
		w.condition(&v, conditionReady, false, text(err))
		return v, w.soon(), nil
	}
	return w.giveUp(ctx, v, fmt.Sprintf("The agent was not ready after %v: %s", w.s.cfg.StartTimeout, text(err)))
}

// giveUp stops a runtime that does not respond. It is killed if it does not end, and then started
// again.
func (w *worker) giveUp(ctx context.Context, v view, message string) (view, time.Duration, error) {
	err := w.call(ctx, w.s.driver.Stop)
	if lost(err) {
		return v, 0, err
	}
	v.State = StateStarting
	return w.failed(v, message), 0, nil
}

// failed counts a failure. The next attempt is made after a pause, unless there were too many.
func (w *worker) failed(v view, message string) view {
	v.Failures++
	v.Error, v.Health, v.RuntimeURL = message, healthUnknown, ""
	w.condition(&v, conditionReady, false, message)
	if v.Failures >= maxFailures {
		v.State = StateFailed
		return v
	}
	v.RetryAt = w.s.store.Now().Add(min(w.s.cfg.Backoff<<(v.Failures-1), maxBackoff))
	if v.State != StateDeploying {
		v.State = StateStarting
	}
	return v
}

// condition sets a condition.
func (w *worker) condition(v *view, kind string, status bool, message string) {
	c := condition{Type: kind, Status: status, Message: message, ChangedAt: w.s.store.Now()}
	i := slices.IndexFunc(v.Conditions, func(c condition) bool { return c.Type == kind })
	if i < 0 {
		v.Conditions = append(v.Conditions, c)
		return
	}
	if v.Conditions[i].Status != status || v.Conditions[i].Message != message {
		v.Conditions[i] = c
	}
}

// reason returns why a runtime ended: the messages of the last warnings and errors in its log,
// which members may read. Other lines are for those who may read logs: they may be stack traces, or
// output of tools.
func (w *worker) reason(ctx context.Context, obs Observed) string {
	lines, err := w.s.driver.Logs(ctx, w.key, reasonTail)
	messages := logMessages(lines)
	if err != nil {
		messages = []string{"its log cannot be read"}
	}
	messages = messages[max(len(messages)-errorLines, 0):]
	if obs.Message != "" {
		messages = append([]string{obs.Message}, messages...)
	}
	if len(messages) == 0 {
		messages = []string{"see its log"}
	}
	return bounded(strings.Join(messages, "\n"))
}

// reasonTail is the number of lines that reason reads.
const reasonTail = 200

// endings begin the line with the error of the runtime command.
var endings = []string{"hub: ", "runtime: "}

// logMessages returns the messages in the lines of a runtime's log that are warnings or errors of
// its logger, and the error with which its command ended.
func logMessages(lines []string) (messages []string) {
	for i, line := range lines {
		var entry struct {
			Level   string `json:"level"`
			Message string `json:"message"`
			Err     string `json:"err"`
			Panic   any    `json:"panic"`
		}
		begins := func(prefix string) bool { return strings.HasPrefix(line, prefix) }
		switch {
		case json.Unmarshal([]byte(line), &entry) == nil:
			if entry.Panic != nil || !slices.Contains([]string{"warn", "error", "fatal"}, entry.Level) {
				continue
			}
			if entry.Err != "" {
				entry.Message += ": " + firstLine(entry.Err)
			}
			messages = append(messages, entry.Message)
		case i >= len(lines)-errorLines && slices.ContainsFunc(endings, begins):
			messages = append(messages, line)
		}
	}
	return messages
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// text returns an error for the user.
func text(err error) string { return bounded(err.Error()) }

// bounded returns the end of a text, as valid UTF-8.
func bounded(s string) string {
	if len(s) > maxError {
		s = s[len(s)-maxError:]
	}
	lines := strings.Split(strings.ToValidUTF8(s, ""), "\n")
	for i := range lines {
		lines[i] = api.Plain(lines[i])
	}
	return strings.Join(lines, "\n")
}
