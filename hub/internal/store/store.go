// Package store is what every concern of the hub is made with: the database, the keyring, the audit
// log, the clock and the logger, and the way to change something with them.
//
//	s, err := store.New(store.Config{DB: database, Keyring: keyring, Audit: audit})
//	if err != nil { ... }
//	change := store.Change{Caller: caller, Group: rbac.AdminOnly}
//	err = s.Change(ctx, change, func(tx *store.Tx) error {
//		if err := insertInvite(ctx, tx, invite); err != nil {
//			return err
//		}
//		tx.Record(actionCreateInvite.Record(event, detail))
//		tx.AfterCommit(cache.clear)
//		return nil
//	})
//
// A change is one transaction: see [Store.Change]. Secrets in the database are declared as [Sealed]
// columns, which [Store.Reseal] seals again when the encryption key is replaced.
package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/internal/meter"
	"github.com/seed93082962/agenthost/internal/secret"
)

// Audit is the audit log. *sqlaudit.Store implements it.
type Audit interface {
	// Append appends records in a transaction of its own.
	Append(ctx context.Context, records ...auditlog.Record) error

	// AppendTx appends records in the transaction of the change.
	AppendTx(ctx context.Context, tx *sql.Tx, records ...auditlog.Record) error
}

// Config configures [New].
type Config struct {
	// DB is a database with the migrations of Audit and of the concerns applied. Required.
	DB *db.DB

	// Keyring seals secrets. Required.
	Keyring *secret.Keyring

	// Audit receives a record of each change, in the transaction of the change. If it fails, the
	// change fails. Required.
	Audit Audit

	// Now is the clock. Defaults to time.Now.
	Now func() time.Time

	// LeaseTime is how long another hub is silent until this one removes it. All hubs need the same
	// value. Defaults to 4 s.
	LeaseTime time.Duration

	// Logger receives errors of background work. Defaults to none.
	Logger *slog.Logger

	// MeterProvider receives the metrics of all concerns, and TracerProvider the spans of background
	// work; a span of a request is that of the request's context. Default to none.
	MeterProvider  metric.MeterProvider
	TracerProvider trace.TracerProvider
}

// Store is the handle of all concerns on one database. It is safe for concurrent use.
type Store struct {
	DB      *db.DB
	Keyring *secret.Keyring
	Audit   Audit // changes and [Store.Append] append to it
	Logger  *slog.Logger
	HubID   string // of this hub, in the rows that it owns: see [Store.Own]

	MeterProvider  metric.MeterProvider // of Config, or one without effect
	TracerProvider trace.TracerProvider

	clock     func() time.Time
	metrics   metrics
	leaseTime time.Duration
	member    *member
}

// New returns a Store. The caller closes the database and the audit log.
func New(cfg Config) (*Store, error) {
	if cfg.DB == nil || cfg.Keyring == nil || cfg.Audit == nil {
		return nil, errors.New("create store: DB, Keyring and Audit are required")
	}

	made, err := newMetrics(cfg.MeterProvider)
	if err != nil {
		return nil, fmt.Errorf("create store: %w", err)
	}

	s := &Store{
		DB: cfg.DB, Keyring: cfg.Keyring, Audit: cfg.Audit, Logger: cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler)),
		MeterProvider: meter.Provider(cfg.MeterProvider), TracerProvider: cfg.TracerProvider, clock: cfg.Now, metrics: made,
		HubID: ids.New(), leaseTime: cmp.Or(cfg.LeaseTime, 4*time.Second), member: &member{},
	}
	if s.TracerProvider == nil {
		s.TracerProvider = noop.NewTracerProvider()
	}

	if s.clock == nil {
		s.clock = time.Now
	}

	return s, nil
}

// Now returns the current time in UTC and in microseconds, as it is stored.
func (s *Store) Now() time.Time { return s.clock().UTC().Truncate(time.Microsecond) }

// Read returns the pool for statements that change nothing.
func (s *Store) Read() *sql.DB { return s.DB.Read() }
