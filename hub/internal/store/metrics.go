package store

import (
	"context"

	"go.opentelemetry.io/otel/metric"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/internal/meter"
)

// metrics has the instruments of the audit log.
type metrics struct {
	entries  metric.Int64Counter
	failures metric.Int64Counter
}

func newMetrics(p metric.MeterProvider) (metrics, error) {
	m := meter.New(p, "github.com/seed93082962/agenthost/hub/internal/store")
	s := metrics{
		entries:  m.Counter("agenthost.hub.audit.entries", "Entries that were appended to the audit logs of all tenants."),
		failures: m.Counter("agenthost.hub.audit.failures", "Changes and reads that failed because the audit log could not be appended to."),
	}
	if err := m.Err(); err != nil {
		return metrics{}, err
	}

	s.failures.Add(context.Background(), 0) // an alert needs the series before the first failure
	return s, nil
}

// appended counts entries, or a failure to append them.
func (s metrics) appended(ctx context.Context, n int, err error) {
	switch {
	case err == nil:
		s.entries.Add(ctx, int64(n))
	case ctx.Err() == nil: // otherwise the client has disconnected
		s.failures.Add(ctx, 1)
	}
}

// Append appends entries to the audit log in a transaction of their own.
func (s *Store) Append(ctx context.Context, records ...auditlog.Record) error {
	err := s.Audit.Append(ctx, records...)
	s.metrics.appended(ctx, len(records), err)
	return err
}
