package relay

import (
	"context"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/seed93082962/agenthost/internal/meter"
	"github.com/seed93082962/agenthost/runtime/wire"
)

const scope = "github.com/seed93082962/agenthost/hub/chat/relay"

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

// Bounds of the series. The names of agents are those that are stored, and a runtime, which is not
// trusted, chooses the names of models.
const (
	maxAgents      = 1000
	maxAgentModels = 8
)

// metrics has the instruments of answers.
type metrics struct {
	ended    metric.Int64Counter
	failures metric.Int64Counter
	first    metric.Float64Histogram
	duration metric.Float64Histogram
	tokens   metric.Int64Counter
	stop     func()

	mu     sync.Mutex // guards agents
	agents map[agentKey]*agentSeries
}

type agentKey struct{ tenantID, agentName string }

// agentSeries has the attributes of an agent.
type agentSeries struct {
	attributes []attribute.KeyValue
	histogram  []metric.RecordOption
	models     *meter.Names
}

func newMetrics(r *Relay) (*metrics, error) {
	m := meter.New(r.store.MeterProvider, scope)
	s := &metrics{
		ended:    m.Counter("agenthost.hub.chats", "Answers that ended, by agent and outcome: completed, cancelled or failed."),
		failures: m.Counter("agenthost.hub.runtime.errors", "Answers that failed, by agent and kind."),
		first:    m.Seconds("agenthost.hub.chat.first_token.duration", "Time from a message to the first part of its answer, by agent.", meter.Slow),
		duration: m.Seconds("agenthost.hub.chat.duration", "Time of answers, by agent.", meter.Slow),
		tokens:   m.Counter("agenthost.hub.tokens", "Tokens of answers by agent, model and type: input, output, cache_read or cache_creation."),
		agents:   map[agentKey]*agentSeries{},
	}
	active := m.Gauge("agenthost.hub.chats.active", "Answers in progress.", "")
	unsaved := m.Gauge("agenthost.hub.chats.unsaved", "Answers that ended and are not stored yet.", "")
	memory := m.Gauge("agenthost.hub.chat.memory", "Memory of the answers in progress beyond the free part of each.", "By")
	s.stop = m.Observe(func(o metric.Observer) {
		r.mu.Lock()
		all, ended := len(r.answers), len(r.ended)
		r.mu.Unlock()
		r.memory.mu.Lock()
		used := r.memory.used
		r.memory.mu.Unlock()
		o.ObserveFloat64(active, float64(max(0, all-ended)))
		o.ObserveFloat64(unsaved, float64(ended))
		o.ObserveFloat64(memory, float64(used))
	}, active, unsaved, memory)
	return s, m.Err()
}

// of returns the attributes of the agent of a run.
func (s *metrics) of(r Run) *agentSeries {
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
			attributes: attributes, models: meter.NewNames(maxAgentModels),
			histogram: []metric.RecordOption{metric.WithAttributeSet(attribute.NewSet(attributes...))},
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
	if !a.started {
		return
	}
	rest := a.text.usage
	for model, usage := range a.text.others {
		if model != a.text.model {
			s.used(ctx, agent, model, usage)
			rest = less(rest, usage)
		}
	}
	s.used(ctx, agent, a.text.model, rest)
}

// less returns the tokens of all without those of a part.
func less(all, part wire.Usage) wire.Usage {
	all.InputTokens -= part.InputTokens
	all.OutputTokens -= part.OutputTokens
	all.CacheReadInputTokens -= part.CacheReadInputTokens
	all.CacheCreationInputTokens -= part.CacheCreationInputTokens
	return all
}

// maxTokens bounds each count of an answer: a runtime is not trusted.
const maxTokens = 1_000_000_000

func (s *metrics) used(ctx context.Context, agent *agentSeries, model string, u wire.Usage) {
	if !agent.models.Admit(model) {
		model = meter.Other
	}
	for kind, n := range map[string]int64{
		"input": u.InputTokens, "output": u.OutputTokens, "cache_read": u.CacheReadInputTokens,
		"cache_creation": u.CacheCreationInputTokens,
	} {
		if n > 0 {
			s.tokens.Add(ctx, min(n, maxTokens), agent.with(attribute.String("model", model), attribute.String("type", kind)))
		}
	}
}
