package runtime

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/seed93082962/agenthost/internal/meter"
	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/tool"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// scope is the name of the meter and of the tracer of this package.
const scope = "github.com/seed93082962/agenthost/runtime"

// durations are the bounds of the buckets of requests and runs, in seconds. A request of a run
// takes as long as the run.
var durations = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800}

// metrics has the instruments of the requests and runs of a runtime. All attributes have values of
// the configuration, of the routes or of a fixed list.
type metrics struct {
	requests     metric.Int64Counter
	requestTimes metric.Float64Histogram
	streams      metric.Int64UpDownCounter
	active       metric.Int64UpDownCounter
	runs         metric.Int64Counter
	runTimes     metric.Float64Histogram
	rejected     metric.Int64Counter
	sessions     metric.Int64Counter

	responses *meter.Series // method, route, status
	routes    *meter.Series // method, route
	agents    *meter.Series // agent
	states    *meter.Series // agent, state
	outcomes  *meter.Series // agent, outcome
	stop      func()        // of the observer
}

// newMetrics makes the instruments, and observes the servers of the agents and the reserved memory
// until stop is called.
func (rt *Runtime) newMetrics() (*metrics, error) {
	m := meter.New(rt.cfg.MeterProvider, scope)
	x := &metrics{
		requests: m.Counter("agenthost.requests", "Requests by method, route and status. route is other for a path without a route, "+
			"or if the request was rejected before its route was found."),
		requestTimes: m.Seconds("agenthost.request.duration", "How long requests took. That of a run takes as long as the run.", durations),
		streams:      m.Current("agenthost.streams.open", "Event streams of runs that are open."),
		active:       m.Current("agenthost.runs.active", "Runs in progress."),
		runs:         m.Counter("agenthost.runs", "Runs that ended. outcome is success, input_required, cancelled, error (an internal fault), or the error_type of a failed run."),
		runTimes:     m.Seconds("agenthost.run.duration", "How long runs took.", durations),
		rejected: m.Counter("agenthost.runs.rejected", "Runs of an available agent that were not started. "+
			"reason is too_many_runs, draining, session_busy, unknown_session, run_id, answers or error."),
		sessions:  m.Counter("agenthost.sessions", "Sessions that runs opened. state is new or resumed."),
		responses: meter.NewSeries("method", "route", "status"), routes: meter.NewSeries("method", "route"),
		agents: meter.NewSeries("agent"), states: meter.NewSeries("agent", "state"), outcomes: meter.NewSeries("agent", "outcome"),
	}
	servers := m.Gauge("agenthost.mcp.servers", "MCP servers of agents. state is pending, connected or failed.", "")
	memory := m.Gauge("agenthost.memory.reserved", "Memory that runs have reserved for conversations and responses.", "By")
	x.stop = m.Observe(func(o metric.Observer) {
		o.ObserveFloat64(memory, float64(rt.reserved.Load()))
		for _, h := range rt.agents {
			counts := map[tool.Status]int{tool.Pending: 0, tool.Connected: 0, tool.Failed: 0}
			for _, s := range h.servers {
				counts[s.Status()]++
			}

			for status, n := range counts {
				if len(h.servers) > 0 {
					o.ObserveFloat64(servers, float64(n), meter.Of("agent", h.id, "state", string(status)))
				}
			}
		}
	}, servers, memory)
	return x, m.Err()
}

// observe is httpapi.Shell.Observe.
func (x *metrics) observe(r *http.Request, route string, status int, took time.Duration) {
	method := r.Method
	if route == "" { // a client may choose any method and path
		method, route = meter.Other, meter.Other
	}

	x.requests.Add(context.Background(), 1, x.responses.Of(method, route, strconv.Itoa(status)))
	x.requestTimes.Record(context.Background(), took.Seconds(), x.routes.Of(method, route))
}

// stream counts an open event stream until the returned function is called.
func (x *metrics) stream(agentID string) func() {
	of := x.agents.Of(agentID)
	x.streams.Add(context.Background(), 1, of)
	return func() { x.streams.Add(context.Background(), -1, of) }
}

// run counts a run until the returned function is called with its result.
func (x *metrics) run(agentID string, resumed bool) func(*result) {
	ctx, of, state := context.Background(), x.agents.Of(agentID), "new"
	if resumed {
		state = "resumed"
	}

	x.active.Add(ctx, 1, of)
	x.sessions.Add(ctx, 1, x.states.Of(agentID, state))
	return func(res *result) {
		x.active.Add(ctx, -1, of)
		x.runs.Add(ctx, 1, x.outcomes.Of(agentID, res.outcome()))
		x.runTimes.Record(ctx, res.duration.Seconds(), of)
	}
}

// outcome returns the value of the attribute outcome.
func (res *result) outcome() string {
	switch {
	case res.state == wire.StateCancelled:
		return "cancelled"
	case res.state == wire.StateCompleted && len(res.Pending) > 0:
		return runvalue.ResultInput
	case res.state == wire.StateCompleted:
		return "success"
	case res.internal:
		return "error"
	}

	switch model.Code(res.errorType) {
	case runvalue.ErrorTypeConnection, runvalue.ErrorTypeRateLimit, runvalue.ErrorTypeOverloaded, runvalue.ErrorTypeServer, runvalue.ErrorTypeAuth, runvalue.ErrorTypePromptTooLong,
		runvalue.ErrorTypeInvalidRequest, runvalue.ErrorTypeUnknown, runvalue.ErrorTypeTimeout, runvalue.ErrorTypeMaxTurns,
		runvalue.ErrorTypeOutput:
		return res.errorType
	}

	return meter.Other // of a model of the embedder
}

// Reasons for which a run is rejected.
const (
	rejectedTooMany  = "too_many_runs"
	rejectedDraining = "draining"
	rejectedBusy     = "session_busy"
	rejectedUnknown  = "unknown_session"
	rejectedID       = "run_id"
	rejectedAnswers  = "answers"
	rejectedError    = "error"
)

func (x *metrics) reject(agentID, reason string) {
	x.rejected.Add(context.Background(), 1, meter.Of("agent", agentID, "reason", reason))
}
