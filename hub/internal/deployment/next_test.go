package deployment

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/wire"
)

var update = flag.Bool("update", false, "write testdata/next.txt")

var (
	clock = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	times = Config{Backoff: time.Second, RetryEvery: time.Minute, WatchEvery: time.Second, StartTimeout: time.Minute}
)

// phases are all values of deploy.Phase, and none.
var phases = []deploy.Phase{"", deploy.Running, deploy.Stopping, deploy.Stopped, deploy.Exited, deploy.Changed}

// row returns a deployment of one revision in a state.
func row(state string, served bool) deployment {
	d := deployment{Key: "acme-helper", Desired: desiredRunning, Revision: 1, Edition: 1}
	d.State, d.Health = state, healthUnknown
	if served {
		d.Serving = 1
	}
	switch state {
	case StateStopping, wire.StateStopped:
		d.Desired = desiredStopped
	case StateDeleting:
		d.Desired = desiredAbsent
	case wire.StateFailed:
		d.Failures = maxFailures
	case wire.StateRunning, StateUnhealthy:
		d.Serving, d.RuntimeURL = 1, "http://runtime/1"
	}
	return d
}

// observed returns an observation of a runtime of revision 1 for each phase, and for each result of
// probes.
func observed() map[string]observation {
	all := map[string]observation{"unknown": {err: errors.New("the platform is busy"), now: clock, at: clock}}
	see := func(name string, phase deploy.Phase, seen sighted) {
		o := observation{now: clock, at: clock, sights: map[int64]sighted{1: seen}}
		if phase != "" {
			o.Exists, o.Runtimes = true, []deploy.Runtime{{Revision: 1, Phase: phase, URL: "http://runtime/1", StartedAt: clock.Add(-time.Hour)}}
		}
		all[name] = o
	}
	for _, phase := range phases {
		if phase != deploy.Running {
			see(cmp.Or(string(phase), "nothing"), phase, sighted{reason: "out of memory"})
		}
	}
	fault := errors.New("connection refused")
	see("ready", deploy.Running, sighted{since: clock})
	see("starts", deploy.Running, sighted{since: clock, fault: fault, misses: 1, missed: clock})
	see("misses", deploy.Running, sighted{since: clock, fault: fault, misses: maxMisses, missed: clock})
	see("hangs", deploy.Running, sighted{since: clock.Add(-time.Hour), fault: fault, misses: maxMisses, missed: clock.Add(-time.Hour)})
	return all
}

// TestNext compares the next state and the calls of each state and each observation with a table.
func TestNext(t *testing.T) {
	t.Parallel()
	var table strings.Builder
	all := observed()
	for _, state := range allStates {
		for _, served := range []bool{false, true} {
			d := row(state, served)
			if !served && d.Serving != 0 {
				continue // it served
			}
			for _, name := range slices.Sorted(maps.Keys(all)) {
				after, calls, _ := times.next(d, all[name])
				fmt.Fprintf(&table, "%-10s %-7s %-9s -> %s:", state, map[bool]string{true: "served"}[served], name, after.State)
				for _, c := range calls {
					fmt.Fprint(&table, " ", c.action)
				}
				table.WriteByte('\n')
			}
		}
	}
	if *update {
		require.NoError(t, os.WriteFile("testdata/next.txt", []byte(table.String()), 0o600))
	}
	want, err := os.ReadFile("testdata/next.txt")
	require.NoError(t, err)
	require.Equal(t, string(want), table.String())
}

// The diagram in ARCHITECTURE.md has the changes of the state that next and after make.
func TestDiagramOfStates(t *testing.T) {
	t.Parallel()
	edges := map[string]bool{}
	add := func(d, after deployment) {
		if d.State != after.State {
			edges[d.State+" --> "+after.State] = true
		}
	}
	for _, state := range allStates {
		for _, served := range []bool{false, true} {
			for _, failures := range []int{0, maxFailures - 1} {
				d := row(state, served)
				d.Failures = max(d.Failures, failures)
				for _, o := range observed() {
					next, calls, _ := times.next(d, o)
					add(d, next)
					for _, c := range calls {
						add(next, times.after(next, c, errors.New("not permitted"), clock))
					}
				}
			}
		}
	}
	document, err := os.ReadFile("../../../ARCHITECTURE.md")
	require.NoError(t, err)
	_, diagram, found := strings.Cut(string(document), "stateDiagram-v2\n")
	require.True(t, found)
	diagram, _, _ = strings.Cut(diagram, "```")
	drawn := map[string]bool{}
	for _, edge := range regexp.MustCompile(`(?m)^\s*([a-z]+ --> [a-z]+)`).FindAllStringSubmatch(diagram, -1) {
		drawn[edge[1]] = true
	}
	require.Equal(t, slices.Sorted(maps.Keys(edges)), slices.Sorted(maps.Keys(drawn)))
}

// platform is a model of a driver whose calls succeed, and whose runtimes become ready.
type platform struct {
	exists   bool
	runtimes map[int64]*deploy.Runtime
	faulty   int64 // a revision that never becomes ready
	seen     map[int64]sighted
	now      time.Time
}

func (p *platform) observe(d deployment) observation {
	o := observation{now: p.now, at: p.now, sights: map[int64]sighted{}}
	o.Exists = p.exists
	for _, revision := range slices.Sorted(maps.Keys(p.runtimes)) {
		r := *p.runtimes[revision]
		o.Runtimes = append(o.Runtimes, r)
		seen, known := p.seen[revision]
		if !known || !seen.started.Equal(r.StartedAt) {
			seen = sighted{started: r.StartedAt, since: p.now, reason: "out of memory"}
		}
		if revision == p.faulty {
			seen.probed(errors.New("connection refused"))
			seen.missed = seen.since
		}
		if revision != d.Serving && revision != d.Revision && seen.retired.IsZero() {
			seen.retired = p.now
		}
		p.seen[revision] = seen
		o.sights[revision] = seen
	}
	return o
}

func (p *platform) make(c call) {
	r := p.runtimes[c.revision]
	switch c.action {
	case applyRevision:
		p.exists = true
		p.runtimes[c.revision] = &deploy.Runtime{
			Revision: c.revision, Phase: deploy.Running, URL: fmt.Sprint("http://runtime/", c.revision, p.now.UnixNano()), StartedAt: p.now,
		}
	case stopRevision:
		if r.Phase == deploy.Stopping {
			r.Phase = deploy.Stopped
		} else if r.Phase != deploy.Stopped {
			r.Phase = deploy.Stopping
		}
	case discardRevision:
		delete(p.runtimes, c.revision)
	case deleteData:
		p.exists = false
		clear(p.runtimes)
	}
}

// arbitrary returns a row and a platform in any state that a hub may find.
func arbitrary(r *rand.Rand) (deployment, *platform) {
	p := &platform{runtimes: map[int64]*deploy.Runtime{}, seen: map[int64]sighted{}, now: clock}
	d := row(allStates[r.IntN(len(allStates))], r.IntN(2) == 0)
	d.Revision = 1 + r.Int64N(5)
	if d.Serving != 0 {
		d.Serving = 1 + r.Int64N(d.Revision)
	}
	d.Failures = r.IntN(maxFailures + 1)
	if r.IntN(2) == 0 {
		d.RetryAt = clock.Add(time.Duration(r.IntN(100)) * time.Second)
	}
	if d.Serving != 0 && d.Serving != d.Revision && r.IntN(2) == 0 {
		d.Rollout = &attempt{State: []string{StateDeploying, StateStarting, wire.StateFailed}[r.IntN(3)], Failures: r.IntN(maxFailures)}
	}
	for revision := int64(1); revision <= d.Revision; revision++ {
		if phase := phases[r.IntN(len(phases))]; phase != "" {
			p.exists = true
			p.runtimes[revision] = &deploy.Runtime{Revision: revision, Phase: phase, URL: fmt.Sprint("http://runtime/", revision), StartedAt: clock.Add(-time.Minute)}
		}
		if revision != d.Serving && r.IntN(2) == 0 {
			d.Draining = append(d.Draining, revision)
		}
	}
	if d.Serving != d.Revision && r.IntN(4) == 0 {
		p.faulty = d.Revision
	}
	return d, p
}

// From any state, a deployment becomes what is desired. On the way, the data of a deployment that
// is not deleted remains, nothing starts that should not run, and no revision ends that serves.
func TestEachDeploymentConverges(t *testing.T) {
	t.Parallel()
	for seed := range uint64(1000) {
		d, p := arbitrary(rand.New(rand.NewPCG(seed, 1)))
		start := fmt.Sprintf("seed %d: %+v", seed, d)
		changed := p.now
		for steps := 0; p.now.Sub(changed) < 2*time.Minute; steps++ { // longer than each pause
			require.Less(t, steps, 1000, start)
			next, calls, pause := times.next(d, p.observe(d))
			p.now = p.now.Add(max(pause, longPause))
			if next.State != d.State || next.Serving != d.Serving || len(next.Draining) != len(d.Draining) {
				changed = p.now
			}
			for _, c := range calls {
				switch c.action {
				case moveRoute, removeRoute:
					continue
				case deleteRow:
					require.Equal(t, desiredAbsent, d.Desired, start)
					require.False(t, p.exists, start)
					continue
				case deleteData:
					require.Equal(t, desiredAbsent, d.Desired, start)
				case applyRevision:
					require.Equal(t, desiredRunning, d.Desired, start)
				case discardRevision, stopRevision:
					r := p.runtimes[c.revision]
					healthy := next.Desired == desiredRunning && next.State == wire.StateRunning && r.Phase == deploy.Running
					require.False(t, healthy && c.revision == next.Serving, start)
				}
				require.LessOrEqual(t, c.revision, d.Revision, start)
				p.make(c)
				changed = p.now
			}
			d = next
		}
		switch {
		case d.Desired == desiredAbsent:
			require.Empty(t, p.runtimes, start)
		case d.Desired == desiredStopped:
			require.Equal(t, wire.StateStopped, d.State, start)
			for _, r := range p.runtimes {
				require.False(t, mayRun(*r), start)
			}
		case d.State == wire.StateFailed:
			require.Zero(t, d.Serving, start)
		case d.Rollout != nil:
			require.Equal(t, []string{wire.StateRunning, wire.StateFailed}, []string{d.State, d.Rollout.State}, start)
		default:
			require.Equal(t, []any{wire.StateRunning, d.Revision}, []any{d.State, d.Serving}, start)
			require.Empty(t, d.Draining, start)
		}
	}
}

// What next decides depends on its arguments only.
func TestNextHasNoEffect(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("next.go")
	require.NoError(t, err)
	for _, effect := range []string{`"context"`, `"database/sql"`, "time.Now", "time.Since", ".Store.", ".Driver.", ".Gateway.", "worker)", "go func"} {
		require.NotContains(t, string(source), effect)
	}
}
