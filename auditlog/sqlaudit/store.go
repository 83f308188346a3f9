package sqlaudit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/auditlog/driver"
)

// The engines.
const (
	PostgreSQL = "postgres"
	SQLite     = "sqlite"
)

// Config configures a Store.
type Config struct {
	Write  *sql.DB // required; the caller closes it after the store
	Read   *sql.DB // for queries. Defaults to Write.
	Engine string  // required: PostgreSQL or SQLite

	// Now is the clock of createdAt. Defaults to time.Now.
	Now func() time.Time
}

// Store is an [auditlog.Store] for any number of processes. Close it to end its goroutine.
type Store struct {
	write   *sql.DB
	read    pool
	engine  engine
	now     func() time.Time
	names   nameCache
	chains  chainCache
	batches batcher
}

var _ auditlog.Store = (*Store)(nil)

// New returns a store on a database that has the schema. It sends no statement to the database.
func New(c Config) (*Store, error) {
	if c.Write == nil {
		return nil, errors.New("open audit log: no database")
	}
	e, err := engineOf(c.Engine)
	if err != nil {
		return nil, err
	}
	s := &Store{write: c.Write, engine: e, now: c.Now}
	s.read.db, s.read.prepare = c.Write, !e.postgres
	if c.Read != nil {
		s.read.db = c.Read
	}
	if s.now == nil {
		s.now = time.Now
	}
	s.batches.start(s)
	return s, nil
}

// Close writes the records of pending calls of Append. It does not close the databases.
func (s *Store) Close() error {
	s.batches.close()
	return s.read.close()
}

// Head implements [auditlog.Store].
func (s *Store) Head(ctx context.Context, tenantID string) (auditlog.Head, error) {
	l, err := s.log(ctx, &s.read, tenantID)
	return l.head, err
}

// Checkpoint implements [auditlog.Store].
func (s *Store) Checkpoint(ctx context.Context, tenantID string) (auditlog.Head, error) {
	l, err := s.log(ctx, &s.read, tenantID)
	return l.floor, err
}

// Tenants returns the tenants that have a log, by name.
func (s *Store) Tenants(ctx context.Context) (names []string, err error) {
	err = forEach(ctx, &s.read, "SELECT name FROM audit_heads ORDER BY name", nil, func(row *sql.Rows) error {
		var name string
		err := row.Scan(&name)
		names = append(names, name)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list audit logs: %w", err)
	}
	return names, nil
}

// Clock returns the current time of the store's clock or of the database, whichever is earlier.
func (s *Store) Clock(ctx context.Context) (time.Time, error) {
	now, other := s.now(), time.Now()
	if s.engine.clock != "" {
		var micros int64
		if err := scanRow(ctx, &s.read, s.engine.clock, nil, &micros); err != nil {
			return time.Time{}, fmt.Errorf("read clock of database: %w", err)
		}
		other = time.UnixMicro(micros)
	}
	if other.Before(now) {
		now = other
	}
	return now, nil
}

// log is the head row of a tenant. Without a row, it is the zero log.
type log struct {
	tenant      int64         // the key of the tenant
	head, floor auditlog.Head // floor is the last pruned entry
	epoch       int64
}

const logColumns = "tenant, id, hash, at, floor_id, floor_hash, floor_at, epoch"

func (s *Store) log(ctx context.Context, db querier, tenantID string) (log, error) {
	if !driver.Storable(tenantID) {
		return log{}, nil
	}
	return scanLog(ctx, db, "SELECT "+logColumns+" FROM audit_heads WHERE name = $1", tenantID)
}

func scanLog(ctx context.Context, db querier, query, tenantID string) (l log, err error) {
	var at, floorAt int64
	err = scanRow(ctx, db, query, []any{tenantID},
		&l.tenant, &l.head.ID, &l.head.Hash, &at, &l.floor.ID, &l.floor.Hash, &floorAt, &l.epoch)
	if err != nil {
		return log{}, fmt.Errorf("read head of audit log: %w", err)
	}
	l.head, l.floor = headAt(l.head, at), headAt(l.floor, floorAt)
	return l, nil
}

// headAt returns the head with its time. A head without an entry is the zero Head.
func headAt(h auditlog.Head, micros int64) auditlog.Head {
	if h.ID == 0 {
		return auditlog.Head{}
	}
	h.CreatedAt = time.UnixMicro(micros).UTC()
	return h
}

// signed returns an id as the databases store it.
func signed(id uint64) int64 { return int64(min(id, math.MaxInt64)) }

// unsigned converts a count or an id from the database. They are negative only in a damaged log.
func unsigned(n int64) uint64 { return uint64(max(n, 0)) }
