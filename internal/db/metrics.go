package db

import (
	"context"
	"database/sql"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/seed93082962/agenthost/internal/meter"
)

const scope = "github.com/seed93082962/agenthost/internal/db"

// Outcomes of transactions.
var (
	outcomeCommitted   = []metric.RecordOption{meter.Of("outcome", "committed")}
	outcomeRolledBack  = []metric.RecordOption{meter.Of("outcome", "rolled_back")} // by its function
	outcomeUnavailable = []metric.RecordOption{meter.Of("outcome", "unavailable")}
)

// metrics has the instruments of a database.
type metrics struct {
	transactions metric.Float64Histogram
	commits      metric.Float64Histogram
	retries      metric.Int64Counter
	stop         func()
}

// pool is the state of a pool of connections.
type pool struct {
	name            string
	used, idle, max int
	waits           int64
	waited          time.Duration
}

func newMetrics(p metric.MeterProvider, pools func() []pool) (*metrics, error) {
	m := meter.New(p, scope)
	s := &metrics{
		transactions: m.Seconds("agenthost.hub.db.transaction.duration", "Time of transactions, with the wait for a connection and all attempts.", meter.Fast),
		commits:      m.Seconds("agenthost.hub.db.commit.duration", "Time of COMMIT.", meter.Fast),
		retries:      m.Counter("agenthost.hub.db.retries", "Attempts of transactions that were repeated because of concurrent ones."),
	}
	s.retries.Add(context.Background(), 0) // so that the first one is visible
	connections := m.Gauge("agenthost.hub.db.connections", "Open connections by pool and state, used or idle.", "")
	most := m.Gauge("agenthost.hub.db.connections.max", "The most connections of a pool.", "")
	waits := m.Sum("agenthost.hub.db.waits", "Waits for a connection of a full pool.", "")
	waited := m.Sum("agenthost.hub.db.wait.duration", "Sum of the waits for a connection of a full pool.", "s")
	s.stop = m.Observe(func(o metric.Observer) {
		for _, p := range pools() {
			name := meter.Of("pool", p.name)
			o.ObserveFloat64(connections, float64(p.used), meter.Of("pool", p.name, "state", "used"))
			o.ObserveFloat64(connections, float64(p.idle), meter.Of("pool", p.name, "state", "idle"))
			o.ObserveFloat64(most, float64(p.max), name)
			o.ObserveFloat64(waits, float64(p.waits), name)
			o.ObserveFloat64(waited, p.waited.Seconds(), name)
		}
	}, connections, most, waits, waited)
	return s, m.Err()
}

// poolOf returns the state of a pool of database/sql.
func poolOf(name string, d *sql.DB) pool {
	s := d.Stats()
	return pool{name: name, used: s.InUse, idle: s.Idle, max: s.MaxOpenConnections, waits: s.WaitCount, waited: s.WaitDuration}
}

// poolOfPostgreSQL returns the state of a pool of pgx.
func poolOfPostgreSQL(p *pgxpool.Pool) pool {
	s := p.Stat()
	return pool{
		name: "all", used: int(s.AcquiredConns()), idle: int(s.IdleConns()), max: int(s.MaxConns()),
		waits: s.EmptyAcquireCount(), waited: s.EmptyAcquireWaitTime(),
	}
}

// ended records a transaction.
func (s *metrics) ended(began time.Time, err error) {
	outcome := outcomeCommitted
	switch {
	case Unavailable(err):
		outcome = outcomeUnavailable
	case err != nil:
		outcome = outcomeRolledBack
	}

	s.transactions.Record(context.Background(), time.Since(began).Seconds(), outcome...)
}

// commit commits a transaction.
func (s *metrics) commit(tx *sql.Tx) error {
	began := time.Now()
	err := tx.Commit()
	s.commits.Record(context.Background(), time.Since(began).Seconds())
	return err
}

// startSpan starts the span of a transaction if the caller has one that is recorded, and otherwise
// returns nil.
func (d *DB) startSpan(ctx context.Context) (context.Context, trace.Span) {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return ctx, nil
	}

	system := "postgresql"
	if d.engine == SQLite {
		system = "sqlite"
	}

	return parent.TracerProvider().Tracer(scope).Start(ctx, "transaction", trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attribute.String("db.system.name", system), attribute.String("db.operation.name", "transaction")))
}

func endSpan(span trace.Span, err error) {
	if span == nil {
		return
	}

	if Unavailable(err) { // another error is that of the caller's function
		span.SetStatus(codes.Error, "the database is unavailable")
	}

	span.End()
}
