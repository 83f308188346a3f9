package sqlaudit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/seed93082962/agenthost/auditlog"
)

// The engines.
const (
	PostgreSQL = "postgres"
	SQLite     = "sqlite"
)

// Config says where a Store keeps its entries.
type Config struct {
	Write  *sql.DB // required; stays the caller's to close, after the store
	Read   *sql.DB // for queries. Defaults to Write.
	Engine string  // required: PostgreSQL or SQLite

	// Now is the clock of createdAt. Defaults to time.Now.
	Now func() time.Time
}

// Store is an [auditlog.Store] for any number of processes. Close it, or its goroutine stays.
type Store struct {
	write *sql.DB
	read  reader
	sql   dialect
	now   func() time.Time
	names names
	ranks ranks
	tails tails
	batch batcher
}

var _ auditlog.Store = (*Store)(nil)

// New returns a store on a database that has the schema. It does not ask the database anything.
func New(c Config) (*Store, error) {
	if c.Write == nil {
		return nil, errors.New("open audit log: no database")
	}
	d, err := dialectOf(c.Engine)
	if err != nil {
		return nil, err
	}
	s := &Store{write: c.Write, sql: d, now: c.Now}
	s.read.db = c.Write
	if c.Read != nil {
		s.read.db = c.Read
	}
	s.read.prepare = d.prepare
	if s.now == nil {
		s.now = time.Now
	}
	s.batch.start(s)
	return s, nil
}

// Close writes what was given to Append before, and waits for it. It leaves the databases open.
func (s *Store) Close() error {
	s.batch.close()
	return s.read.close()
}

// Head returns the last entry of the log.
func (s *Store) Head(ctx context.Context, tenantID string) (auditlog.Head, error) {
	l, err := s.log(ctx, tenantID)
	return l.head, err
}

// Checkpoint returns the last entry that was pruned.
func (s *Store) Checkpoint(ctx context.Context, tenantID string) (auditlog.Head, error) {
	l, err := s.log(ctx, tenantID)
	return l.floor, err
}

// log is the head row of a tenant. The zero log is that of one that has no row.
type log struct {
	tenant      int64 // its key
	head, floor auditlog.Head
	epoch       int64
}

const logColumns = "tenant, id, hash, at, floor_id, floor_hash, floor_at, epoch"

func (s *Store) log(ctx context.Context, tenantID string) (log, error) {
	if !storable(tenantID) {
		return log{}, nil
	}
	rows, err := s.read.query(ctx, "SELECT "+logColumns+" FROM audit_heads WHERE name = $1", tenantID)
	if err != nil {
		return log{}, fmt.Errorf("read audit log head: %w", err)
	}
	l, err := scanLog(rows)
	if err != nil {
		return log{}, fmt.Errorf("read audit log head: %w", err)
	}
	return l, nil
}

// storable tells what PostgreSQL takes as text. Nothing else is the name of a log.
func storable(s string) bool { return utf8.ValidString(s) && !strings.Contains(s, "\x00") }

// scanLog reads the only row, if there is one.
func scanLog(rows *sql.Rows) (l log, err error) {
	defer func() { err = errors.Join(err, rows.Close()) }()
	if !rows.Next() {
		return log{}, rows.Err()
	}
	var at, floorAt int64
	err = rows.Scan(&l.tenant, &l.head.ID, &l.head.Hash, &at, &l.floor.ID, &l.floor.Hash, &floorAt, &l.epoch)
	if err != nil {
		return log{}, err
	}
	l.head, l.floor = headOf(l.head, at), headOf(l.floor, floorAt)
	return l, rows.Err()
}

// headOf completes what was scanned: without an entry all of it is zero.
func headOf(h auditlog.Head, at int64) auditlog.Head {
	if h.ID == 0 {
		return auditlog.Head{}
	}
	h.CreatedAt = time.UnixMicro(at).UTC()
	return h
}

// signed is an id as the databases hold it.
func signed(id uint64) int64 { return int64(min(id, math.MaxInt64)) }

// unsigned is a count or an id from the database, which are not negative unless somebody tampers.
func unsigned(n int64) uint64 { return uint64(max(n, 0)) }
