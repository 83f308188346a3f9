package deployment

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/wire"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/seed93082962/agenthost/internal/meter"
)

const scope = "github.com/seed93082962/agenthost/hub/internal/deployment"

// maxAgents bounds the series of agents. Their names are those of deployments.
const maxAgents = 1000

// metrics has the instruments of deployments.
type metrics struct {
	calls    metric.Float64Histogram
	restarts metric.Int64Counter
	leases   metric.Int64Counter
	agents   *meter.Names
	stop     func()

	others   atomic.Int64 // leases of other hubs, as of the last poll
	polledAt atomic.Int64 // the last poll without an error, in milliseconds since 1970
}

// Changes of leases.
var (
	leaseTaken = meter.Of("change", "taken")
	leaseLost  = meter.Of("change", "lost") // to another hub, or the deployment was deleted
)

func newMetrics(p metric.MeterProvider, workers func() []*worker) (*metrics, error) {
	m := meter.New(p, scope)
	s := &metrics{
		calls:    m.Seconds("agenthost.hub.driver.call.duration", "Time of calls of the deployer that change something, by call and outcome.", meter.Fast),
		restarts: m.Counter("agenthost.hub.deployment.restarts", "Runtimes that were started again after they ended or did not respond, by agent."),
		leases:   m.CounterOf("agenthost.hub.deployment.lease.changes", "Leases of deployments that this hub has taken or lost.", "change", "taken", "lost"),
		agents:   meter.NewNames(maxAgents), stop: func() {},
	}
	states := m.Gauge("agenthost.hub.deployments", "Deployments that this hub controls, by state. The sum over all hubs is that of all deployments.", "")
	leases := m.Gauge("agenthost.hub.deployment.leases", "Leases of deployments by holder: this hub, or other hubs.", "")
	polled := m.Gauge("agenthost.hub.reconciler.poll.timestamp", "Time at which this hub last read the leases of deployments without an error, since 1970.", "s")
	if workers != nil {
		s.stop = m.Observe(func(o metric.Observer) {
			all := workers()
			count := map[string]int{}
			for _, state := range allStates {
				count[state] = 0
			}

			for _, w := range all {
				if state, ok := w.state.Load().(string); ok {
					count[state]++
				}
			}

			for state, n := range count {
				o.ObserveFloat64(states, float64(n), meter.Of("state", state))
			}

			o.ObserveFloat64(leases, float64(len(all)), meter.Of("holder", "this"))
			o.ObserveFloat64(leases, float64(s.others.Load()), meter.Of("holder", "other"))
			if at := s.polledAt.Load(); at > 0 {
				o.ObserveFloat64(polled, float64(at)/1000)
			}
		}, states, leases, polled)
	}

	return s, m.Err()
}

var allStates = []string{
	StateDeploying, StateStarting, wire.StateRunning, StateUnhealthy, StateStopping, wire.StateStopped, wire.StateFailed, StateDeleting,
}

// observeState records the state of a deployment that was stored.
func (w *worker) observeState(ctx context.Context, d deployment, v view) {
	w.state.Store(v.State)
	if n := v.RestartCount - d.RestartCount; n > 0 {
		tenantID, agentName := d.TenantID, d.AgentName
		if !w.s.metrics.agents.Admit(d.Key) {
			tenantID, agentName = meter.Other, meter.Other
		}

		w.s.metrics.restarts.Add(ctx, int64(n), meter.Of("tenant", tenantID, "agent", agentName))
	}
}

// call calls the driver, and records the call. A call of a deployment has a trace of its own.
func (w *worker) call(ctx context.Context, d deployment, c call) error {
	began := time.Now()
	ctx, span := w.s.tracer.Start(ctx, "deployment "+string(c.action), trace.WithAttributes(
		attribute.String("agenthost.deployment", w.key), attribute.String("agenthost.revision", strconv.Itoa(int(c.revision)))))
	defer span.End()
	w.called = true
	err := w.callDriver(ctx, d, c)
	outcome := "success"
	switch {
	case errors.Is(err, deploy.ErrUnavailable):
		outcome = "unavailable"
	case err != nil:
		outcome = "error"
	}

	if err != nil {
		span.SetStatus(codes.Error, outcome)
	}

	w.s.metrics.calls.Record(context.WithoutCancel(ctx), time.Since(began).Seconds(), meter.Of("call", string(c.action), "outcome", outcome))
	return err
}
