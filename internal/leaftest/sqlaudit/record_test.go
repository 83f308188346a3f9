package sqlaudit_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/auditlog/sqlaudit"
	"github.com/seed93082962/agenthost/internal/db"
)

// recorder is a connector that records its queries.
type recorder struct {
	driver driver.Driver
	name   string

	mu     sync.Mutex // guards asked and before
	asked  []asked
	before func() // is called before each query
}

type asked struct {
	query string
	args  []any
}

// record opens a database through a driver that is registered as name.
func record(name, address string) (*recorder, *sql.DB, error) {
	d, err := sql.Open(name, address)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = d.Close() }()
	r := &recorder{driver: d.Driver(), name: address}
	return r, sql.OpenDB(r), nil
}

func (r *recorder) take() []asked {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.asked
	r.asked = nil
	return all
}

func (r *recorder) note(query string, args []driver.NamedValue) {
	a := asked{query: query}
	for _, v := range args {
		a.args = append(a.args, v.Value)
	}
	r.mu.Lock()
	r.asked = append(r.asked, a)
	before := r.before
	r.mu.Unlock()
	if before != nil {
		before()
	}
}

// each sets a function that is called before each later query.
func (r *recorder) each(before func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.before = before
}

// recorded opens a store on the database of an engine, and records its queries.
func recorded(t *testing.T, d *db.DB, url string, now func() time.Time) (*sqlaudit.Store, *recorder) {
	t.Helper()
	rec, read := recordDB(t, d, url)
	s, err := sqlaudit.New(sqlaudit.Config{Write: d.Write(), Read: read, Engine: string(d.Engine()), Now: now})
	require.NoError(t, err)
	return s, rec
}

func recordDB(t *testing.T, d *db.DB, url string) (*recorder, *sql.DB) {
	t.Helper()
	name, address := "pgx", url
	if d.Engine() == db.SQLite {
		name, address = "sqlite", strings.TrimPrefix(url, "sqlite://")
	}
	rec, pool, err := record(name, address)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, pool.Close()) })
	return rec, pool
}

func (r *recorder) Driver() driver.Driver { return r.driver }

func (r *recorder) Connect(context.Context) (driver.Conn, error) {
	c, err := r.driver.Open(r.name)
	if err != nil {
		return nil, err
	}
	return conn{c, r}, nil
}

// conn passes on what the store uses for queries.
type conn struct {
	driver.Conn
	recorder *recorder
}

func (c conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	c.recorder.note(query, args)
	return c.Conn.(driver.QueryerContext).QueryContext(ctx, query, args)
}

func (c conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	c.recorder.note(query, args)
	return c.Conn.(driver.ExecerContext).ExecContext(ctx, query, args)
}

func (c conn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	return c.Conn.(driver.ConnBeginTx).BeginTx(ctx, o)
}

func (c conn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	s, err := c.Conn.(driver.ConnPrepareContext).PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	return stmt{s, query, c.recorder}, nil
}

type stmt struct {
	driver.Stmt
	query    string
	recorder *recorder
}

func (s stmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	s.recorder.note(s.query, args)
	return s.Stmt.(driver.StmtQueryContext).QueryContext(ctx, args)
}
