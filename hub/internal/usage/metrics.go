package usage

import (
	"context"
	"strconv"
	"sync"

	"go.opentelemetry.io/otel/metric"

	"github.com/seed93082962/agenthost/internal/meter"
)

// Bounds of the series. The names of agents are those that are stored, and a runtime, which is not
// trusted, chooses the names of models.
const (
	maxAgents      = 1000
	maxAgentModels = 8
)

// metrics has the instruments of runs.
type metrics struct {
	tokens metric.Int64Counter

	mu     sync.Mutex // guards models
	models map[agentKey]*meter.Names
}

type agentKey struct{ tenantID, agentName string }

func newMetrics(p metric.MeterProvider) (*metrics, error) {
	m := meter.New(p, "github.com/seed93082962/agenthost/hub/internal/usage")
	s := &metrics{
		tokens: m.Counter("agenthost.hub.tokens", "Tokens of runs by agent, model, type (input, output, cache_read or cache_creation), and whether they are estimated."),
		models: map[agentKey]*meter.Names{},
	}
	return s, m.Err()
}

// of returns the agent of a series, and its models.
func (s *metrics) of(r CountedRun) (agentKey, *meter.Names) {
	key := agentKey{r.TenantID, r.AgentName}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.models[key] == nil && len(s.models) >= maxAgents {
		key = agentKey{meter.Other, meter.Other}
	}

	if s.models[key] == nil {
		s.models[key] = meter.NewNames(maxAgentModels)
	}

	return key, s.models[key]
}

// Observe adds the tokens of runs to the metrics. The caller of Record calls it once for each run
// that Record has returned, after the commit. [Direct.End] does it by itself.
func (s *Service) Observe(runs ...CountedRun) {
	for _, r := range runs {
		s.observe(r)
	}
}

func (s *Service) observe(r CountedRun) {
	agent, models := s.metrics.of(r)
	for _, p := range s.parts(r) {
		for kind, n := range map[string]int64{
			"input": p.counts.InputTokens, "output": p.counts.OutputTokens,
			"cache_read": p.counts.CacheReadTokens, "cache_creation": p.counts.CacheWriteTokens,
		} {
			if n == 0 {
				continue
			}

			model := p.model
			if !models.Admit(model) {
				model = meter.Other
			}

			series := meter.Of("tenant", agent.tenantID, "agent", agent.agentName, "model", model, "type", kind, "estimated", strconv.FormatBool(p.counts.Estimates > 0))
			s.metrics.tokens.Add(context.Background(), n, series)
		}
	}
}
