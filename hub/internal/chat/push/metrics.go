package push

import (
	"context"

	"go.opentelemetry.io/otel/metric"

	"github.com/seed93082962/agenthost/internal/meter"
)

// maxAgents bounds the series. Only agents that are stored are counted by their names.
const maxAgents = 1000

// metrics has the instruments of pushes.
type metrics struct {
	sessions metric.Int64Counter
	agents   *meter.Names
}

func newMetrics(p metric.MeterProvider) (metrics, error) {
	m := meter.New(p, "github.com/seed93082962/agenthost/hub/internal/chat/push")
	s := metrics{
		sessions: m.Counter("agenthost.hub.pushed.sessions", "Sessions that were pushed, by agent and outcome: created, updated, unchanged, stale or invalid. "+
			"The tenant and the agent of one whose agent does not exist are other."),
		agents: meter.NewNames(maxAgents),
	}
	return s, m.Err()
}

// count counts a session. agentName is "" if no such agent exists.
func (s metrics) count(ctx context.Context, tenantID, agentName, outcome string) {
	if agentName == "" || !s.agents.Admit(tenantID+"/"+agentName) {
		tenantID, agentName = meter.Other, meter.Other
	}

	s.sessions.Add(ctx, 1, meter.Of("tenant", tenantID, "agent", agentName, "outcome", outcome))
}
