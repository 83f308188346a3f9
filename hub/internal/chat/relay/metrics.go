package relay

import (
	"context"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/seed93082962/agenthost/internal/meter"
)

const scope = "github.com/seed93082962/agenthost/hub/internal/chat/relay"

// Kinds of failures of runtimes, for metrics.
const (
	kindUnreachable = "unreachable" // no connection, or no response that can be read
	kindRejected    = "rejected"    // the runtime has rejected the run
	kindBusy        = "busy"        // it takes no more runs, or the session is in use
	kindSlow        = "slow"        // it did not accept the run in time
	kindIdle        = "idle"        // it has sent nothing for a while
	kindLost        = "lost"        // the connection ended before the run
	kindTooLong     = "too_long"    // the answer was too long or took too long
	kindMemory      = "memory"      // the answers in progress used too much memory
	kindRun         = "run"         // the run has failed: the metrics of the runtime have the reason
	kindHub         = "hub"         // the database was unavailable, or another hub has taken the session
)

// maxAgents bounds the series. The names of agents are those that are stored.
const maxAgents = 1000

// metrics has the instruments of answers.
type metrics struct {
	ended    metric.Int64Counter
	failures metric.Int64Counter
	first    metric.Float64Histogram
	duration metric.Float64Histogram
	stop     func()

	mu     sync.Mutex // guards agents
	agents map[agentKey]*agentSeries
}

type agentKey struct{ tenantID, agentName string }

// agentSeries has the attributes of an agent.
type agentSeries struct {
	attributes []attribute.KeyValue
	histogram  []metric.RecordOption
}

func newMetrics(r *Relay) (*metrics, error) {
	m := meter.New(r.store.MeterProvider, scope)
	s := &metrics{
		ended:    m.Counter("agenthost.hub.chats", "Answers that ended, by agent and outcome: completed, cancelled or failed."),
		failures: m.Counter("agenthost.hub.runtime.errors", "Answers that failed, by agent and kind."),
		first:    m.Seconds("agenthost.hub.chat.first_token.duration", "Time from a message to the first part of its answer, by agent.", meter.Slow),
		duration: m.Seconds("agenthost.hub.chat.duration", "Time of answers, by agent.", meter.Slow),
		agents:   map[agentKey]*agentSeries{},
	}
	active := m.Gauge("agenthost.hub.chats.active", "Answers in progress.", "")
	unsaved := m.Gauge("agenthost.hub.chats.unsaved", "Answers that ended and are not stored yet.", "")
	memory := m.Gauge("agenthost.hub.chat.memory", "Memory of the answers in progress beyond the free part of each.", "By")
	s.stop = m.Observe(func(o metric.Observer) {
		r.mu.Lock()
		all, ended := len(r.answers), r.unsaved
		r.mu.Unlock()
		r.memory.mu.Lock()
		used := r.memory.used
		r.memory.mu.Unlock()
		o.ObserveFloat64(active, float64(all-ended))
		o.ObserveFloat64(unsaved, float64(ended))
		o.ObserveFloat64(memory, float64(used))
	}, active, unsaved, memory)
	return s, m.Err()
}

// of returns the attributes of the agent of a run.
func (s *metrics) of(r AnswerRun) *agentSeries {
	key := agentKey{r.TenantID, r.AgentName}
	s.mu.Lock()
	defer s.mu.Unlock()
	if found := s.agents[key]; found != nil {
		return found
	}

	if len(s.agents) >= maxAgents {
		key = agentKey{meter.Other, meter.Other}
	}

	if s.agents[key] == nil {
		attributes := []attribute.KeyValue{attribute.String("tenant", key.tenantID), attribute.String("agent", key.agentName)}
		s.agents[key] = &agentSeries{
			attributes: attributes, histogram: []metric.RecordOption{metric.WithAttributeSet(attribute.NewSet(attributes...))},
		}
	}

	return s.agents[key]
}

// with returns the option of the agent and further attributes.
func (a *agentSeries) with(more ...attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(slices.Concat(a.attributes, more)...))
}

// firstToken records the first part of an answer.
func (s *metrics) firstToken(a *Answer) {
	s.first.Record(a.ctx, time.Since(a.began).Seconds(), s.of(a.run).histogram...)
}

// end counts an answer whose end is stored, or cannot be.
func (s *metrics) end(a *Answer) {
	if !a.begun {
		return // the message was not stored
	}

	ctx, agent := context.Background(), s.of(a.run)
	s.ended.Add(ctx, 1, agent.with(attribute.String("outcome", a.end.Status)))
	if a.end.kind != "" {
		s.failures.Add(ctx, 1, agent.with(attribute.String("kind", a.end.kind)))
	}

	s.duration.Record(ctx, a.concluded.Sub(a.began).Seconds(), agent.histogram...)
}
