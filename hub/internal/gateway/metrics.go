package gateway

import (
	"context"
	"errors"
	"net"

	"go.opentelemetry.io/otel/metric"

	"github.com/seed93082962/agenthost/internal/meter"
)

func newMetrics(p metric.MeterProvider) (metric.Int64Counter, error) {
	m := meter.New(p, "github.com/seed93082962/agenthost/hub/internal/gateway")
	failures := m.CounterOf("agenthost.hub.proxy.errors", "Requests to runtimes that failed below /runtime and for details and files, by kind: "+
		"unreachable, slow or invalid.", "kind", "unreachable", "slow", "invalid")
	return failures, m.Err()
}

// count counts a request that a runtime did not serve.
func (s *Service) count(err error) {
	kind := "invalid" // the response
	op, network := errors.AsType[*net.OpError](err)
	switch {
	case errors.Is(err, errUnknownRun):
		return // the runtime has responded
	case errors.Is(err, errSlow):
		kind = "slow"
	case network && op.Op == "dial":
		kind = "unreachable"
	}

	s.errors.Add(context.Background(), 1, meter.Of("kind", kind))
}
