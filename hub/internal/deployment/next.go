package deployment

import (
	"cmp"
	"errors"
	"fmt"
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
	maxDraining = 3                // revisions whose runs continue, until the next one waits for their end
)

// action is what a step lets a worker do.
type action string

const (
	restoreRow      action = "restore" // the database has a revision after the one of the platform
	rotateKey       action = "rotate"
	moveRoute       action = "route"   // to the runtime that serves
	removeRoute     action = "unroute" // if the gateway has one
	applyRevision   action = "apply"
	stopRevision    action = "stop"
	discardRevision action = "discard"
	deleteData      action = "delete"
	deleteRow       action = "forget" // a tombstone remains
)

// call is an action for a revision, or for the whole deployment.
type call struct {
	action
	revision int64
	patience time.Duration // of a stop
}

// observation is what a worker knows of a deployment in addition to the row.
type observation struct {
	deploy.Observed
	err    error // if it is not nil, nothing is known
	now    time.Time
	at     time.Time         // now, by the clock of sights
	sights map[int64]sighted // the runtimes, by revision
	moving bool              // the runtime that serves is on the former platform
}

// Pauses between steps.
const (
	soon      = time.Duration(-1) // the state changes: see worker.soon
	idlePause = 10 * time.Second
)

// step is one evaluation of next.
type step struct {
	Config // only its times, and whether there is a gateway
	observation
	deployment
	calls []call
}

func (c Config) step(d deployment, obs observation) *step {
	d.Conditions = slices.Clone(d.Conditions)
	if d.Rollout != nil {
		rollout := *d.Rollout
		d.Rollout = &rollout
	}

	return &step{Config: c, observation: obs, deployment: d}
}

// next moves a deployment towards its desired state. It returns the row to store, the calls that
// are then made in this order, and the pause until the next step. It has no effect of its own.
func (c Config) next(d deployment, obs observation) (deployment, []call, time.Duration) {
	s := c.step(d, obs)
	pause := s.take()
	return s.deployment, s.calls, pause
}

// after returns the row after the error of a call.
func (c Config) after(d deployment, made call, err error, now time.Time) deployment {
	s := c.step(d, observation{now: now})
	switch made.action {
	case deleteData:
		s.Error = text(err)
	case stopRevision:
		if s.Desired == desiredStopped {
			s.Error = text(err)
		}
	case applyRevision:
		a := s.attemptOf(made.revision)
		if errors.Is(err, deploy.ErrUnavailable) {
			a.Error, a.RetryAt = text(err), now.Add(c.WatchEvery)
			break
		}

		s.note(a, conditionApplied, false, text(err))
		s.failed(a, text(err))
	}

	return s.deployment
}

func (s *step) call(a action, revision int64) {
	s.calls = append(s.calls, call{action: a, revision: revision})
}

func (s *step) take() time.Duration {
	if s.err != nil {
		s.Error = text(s.err)
		return s.WatchEvery
	}

	if s.Desired == desiredAbsent {
		return s.purge()
	}

	if n := len(s.Runtimes); n > 0 && s.Runtimes[n-1].Revision > s.Revision {
		s.call(restoreRow, s.Runtimes[n-1].Revision)
		return 0
	}

	if s.Rotation != "" {
		s.call(rotateKey, s.main())
	}

	if s.Desired == desiredStopped {
		return s.halt()
	}

	return s.advance()
}

// purge deletes what the driver has of the deployment, and then the row. A route that the gateway
// does not remove is removed later, also without the row.
func (s *step) purge() time.Duration {
	s.call(removeRoute, 0)
	if !s.Exists {
		s.call(deleteRow, 0)
		return 0
	}

	s.call(deleteData, 0)
	if s.Error != "" {
		return s.WatchEvery
	}

	return soon
}

// halt removes the route and stops all runtimes, also if the route is not removed.
func (s *step) halt() time.Duration {
	s.call(removeRoute, 0)
	s.condition(s.now, conditionReady, false, "The deployment is stopped.")
	s.removeCondition(conditionServers)
	if !slices.ContainsFunc(s.Runtimes, mayRun) {
		s.State, s.Error = wire.StateStopped, ""
		return idlePause
	}

	s.State = StateStopping
	for _, r := range s.Runtimes {
		if mayRun(r) {
			s.call(stopRevision, r.Revision)
		}
	}

	return soon
}

// main is the revision whose state is that of the deployment.
func (d deployment) main() int64 { return cmp.Or(d.Serving, d.Revision) }

// attemptOf returns the attempt of a revision, which is empty if it was not tried.
func (d *deployment) attemptOf(revision int64) *attempt {
	switch {
	case d.Rollout != nil && revision == d.Revision:
		return d.Rollout
	case revision == d.main():
		return &d.attempt
	}

	return &attempt{}
}

// advance makes the revision that serves run, and the last revision next to it. The last one serves
// as soon as it is ready.
func (s *step) advance() time.Duration {
	pause := s.WatchEvery
	if !s.moving {
		pause = s.bring(&s.attempt, s.main())
	}

	switch {
	case s.Serving == 0 && s.State == wire.StateRunning:
		s.Serving = s.Revision
		s.condition(s.now, conditionProgressing, true, "")
	case s.Serving == s.Revision && !s.moving:
		s.Rollout = nil
	case s.Serving != 0:
		pause = min(pause, s.roll())
	}

	route := removeRoute
	if s.State == wire.StateRunning && s.RuntimeURL != "" {
		route = moveRoute
	}

	s.call(route, s.Serving)
	return min(pause, s.end())
}

// roll makes the last revision ready next to the one that serves, and then lets it serve.
func (s *step) roll() time.Duration {
	if len(s.Draining) >= maxDraining && s.Runtime(s.Revision).Phase == "" {
		s.condition(s.now, conditionProgressing, true, "The revision starts when the runs of an earlier one have ended.")
		return s.WatchEvery
	}

	if s.Rollout == nil {
		s.Rollout = &attempt{State: StateDeploying, Health: healthUnknown}
		s.condition(s.now, conditionProgressing, true, "The revision starts.")
	}

	pause := s.bring(s.Rollout, s.Revision)
	if s.Rollout.State != wire.StateRunning {
		return pause
	}

	s.Draining = append(slices.Clone(s.Draining), s.Serving)
	s.attempt, s.Serving, s.Rollout = *s.Rollout, s.Revision, nil
	s.removeCondition(conditionServers) // of the former one
	for _, kind := range []string{conditionApplied, conditionReady, conditionProgressing} {
		s.condition(s.now, kind, true, "")
	}

	return 0
}

// end ends the runtimes of other revisions. Those that served end after their runs, and not before
// all hubs and the gateway send new runs to the next one.
func (s *step) end() time.Duration {
	pause := idlePause
	draining := []int64{}
	for _, r := range s.Runtimes {
		if r.Revision == s.Serving || r.Revision == s.Revision {
			continue
		}

		pause = s.WatchEvery
		if !slices.Contains(s.Draining, r.Revision) || !alive(r) {
			s.call(discardRevision, r.Revision)
			continue
		}

		draining = append(draining, r.Revision)
		if seen := s.sights[r.Revision]; !seen.retired.IsZero() && s.at.Sub(seen.retired) >= s.retireAfter() {
			s.calls = append(s.calls, call{stopRevision, r.Revision, seen.runLimit})
		}
	}

	s.Draining = draining
	return pause
}

// bring makes the runtime of a revision run until its agent is ready. a is part of the row.
func (s *step) bring(a *attempt, revision int64) time.Duration {
	r := s.Runtime(revision)
	switch {
	case a.State == wire.StateFailed && mayRun(r): // what still runs of it
		s.call(stopRevision, revision)
		return s.WatchEvery
	case a.State == wire.StateFailed && !s.served(a):
		return idlePause
	case s.now.Before(a.RetryAt) && a.RetryAt.Sub(s.now) <= max(maxBackoff, s.RetryEvery): // a later time was stored before the clock was set back
		return min(a.RetryAt.Sub(s.now), s.WatchEvery)
	case r.Phase == deploy.Running:
		return s.judge(a, r)
	case r.Phase == deploy.Stopping:
		s.call(stopRevision, revision)
		return soon
	case r.Phase == deploy.Exited && !r.StartedAt.Equal(a.Counted):
		a.Counted = r.StartedAt
		if s.sights[revision].unusable && a.Failures > 0 && !s.served(a) { // one more attempt is enough
			a.Failures = max(a.Failures, maxFailures-1)
		}

		s.failed(a, "The runtime ended: "+s.sights[revision].reason)
		return 0
	case r.Phase == deploy.Exited:
		s.RestartCount++
	}

	a.State = StateStarting
	if r.Phase == "" {
		a.State = StateDeploying
	}

	a.Health, a.RuntimeURL = healthUnknown, ""
	if a == &s.attempt { // the next revision still has the reason why it ended
		s.condition(s.now, conditionReady, false, "The runtime is not running.")
	}

	s.call(applyRevision, revision)
	return soon
}

// judge decides by the probes of a runtime whether its agent is ready.
func (s *step) judge(a *attempt, r deploy.Runtime) time.Duration {
	was := a.hasBeenReady(r)
	a.RuntimeURL, a.StartedAt = r.URL, r.StartedAt
	s.note(a, conditionApplied, true, "")
	seen := s.sights[r.Revision]
	age := s.at.Sub(seen.since) // times of the platform may be those of a clock that was set
	if seen.fault == nil {
		a.State, a.Health = wire.StateRunning, healthHealthy
		a.Error, a.RetryAt = "", time.Time{}
		// The start is also compared, because another hub may have observed the runtime before.
		if max(age, s.now.Sub(r.StartedAt)) >= stableAfter {
			a.Failures = 0
		}

		s.note(a, conditionReady, true, "")
		if a == &s.attempt {
			s.noteServers(s.now, seen.servers)
		}

		return s.WatchEvery
	}

	fault := text(seen.fault)
	message := fmt.Sprintf("The agent was not ready after %v: %s", s.StartTimeout, fault)
	switch {
	case was && seen.misses < maxMisses:
		return s.WatchEvery
	case was:
		a.State, a.Health, a.Error = StateUnhealthy, healthUnhealthy, fault
		s.note(a, conditionReady, false, fault)
		if s.at.Sub(seen.missed) < s.StartTimeout {
			return s.WatchEvery
		}

		s.RestartCount++
		message = fmt.Sprintf("The runtime did not respond for %v: %s", s.StartTimeout, fault)
	case age < s.StartTimeout:
		a.State, a.Health = StateStarting, healthUnknown
		s.note(a, conditionReady, false, fault)
		return soon
	}

	s.failed(a, message)
	s.call(stopRevision, r.Revision) // it is killed if it does not end, and then started again
	return 0
}

// hasBeenReady reports whether the agent of the runtime was ready. Otherwise, the runtime may have
// been started again by another program.
func (a *attempt) hasBeenReady(r deploy.Runtime) bool {
	return (a.State == wire.StateRunning || a.State == StateUnhealthy) && a.RuntimeURL == r.URL
}

// served reports whether an attempt is that of the revision that serves, which was ready once.
func (s *step) served(a *attempt) bool { return s.Serving != 0 && a == &s.attempt }

// failed counts a failure. The next attempt is made after a pause. After too many of them, only a
// revision that was ready once is started again: the cause may be outside of it.
func (s *step) failed(a *attempt, message string) {
	a.Failures++
	a.Error, a.Health, a.RuntimeURL = message, healthUnknown, ""
	s.note(a, conditionReady, false, message)
	if a == &s.attempt {
		s.removeCondition(conditionServers)
	}

	switch {
	case a.Failures < maxFailures:
		a.RetryAt = s.now.Add(min(s.Backoff<<(a.Failures-1), maxBackoff))
		if a.State != StateDeploying {
			a.State = StateStarting
		}
	case s.served(a):
		a.State, a.RetryAt = wire.StateFailed, s.now.Add(s.RetryEvery)
	default:
		a.State = wire.StateFailed
		s.condition(s.now, conditionProgressing, false, "The revision did not become ready: "+message)
	}
}
