package sqlaudit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
)

// dialect is where the engines differ.
type dialect struct {
	lock      string // takes the head row $1
	swap      bool   // the head can be moved and entries inserted in one statement
	contains  string // format: column, parameter
	set       string // format: parameter with a JSON array of integers, as a subquery
	texts     string // the same of strings
	pairs     string // the same of pairs of integers, as a subquery with columns key and pos
	prepare   bool   // the driver keeps no prepared statements of its own
	batchSize int    // entries in one transaction
}

func dialectOf(engine string) (dialect, error) {
	switch engine {
	case PostgreSQL:
		return dialect{
			lock: "SELECT " + logColumns + " FROM audit_heads WHERE name = $1 FOR UPDATE", swap: true,
			contains: "strpos(%s, %s) > 0", set: "(SELECT CAST(json_array_elements_text(CAST(%s AS json)) AS BIGINT))",
			texts: "(SELECT json_array_elements_text(CAST(%s AS json)))",
			pairs: "(SELECT CAST(p->>0 AS BIGINT) AS key, CAST(p->>1 AS BIGINT) AS pos " +
				"FROM json_array_elements(CAST(%s AS json)) AS p)",
			batchSize: 512,
		}, nil
	case SQLite:
		return dialect{
			lock:     "UPDATE audit_heads SET epoch = epoch WHERE name = $1 RETURNING " + logColumns,
			contains: "instr(%s, %s) > 0", set: "(SELECT value FROM json_each(%s))", texts: "(SELECT value FROM json_each(%s))",
			pairs:   "(SELECT json_extract(value, '$[0]') AS key, json_extract(value, '$[1]') AS pos FROM json_each(%s))",
			prepare: true, batchSize: 512,
		}, nil
	}
	return dialect{}, fmt.Errorf("open audit log: unknown engine %q", engine)
}

// querier is a database, or a transaction on it.
type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// reader asks on a pool, with statements that are prepared once: the pure Go SQLite spends more on compiling most of
// these than on running them. Their texts hold no values, so there are few.
type reader struct {
	db      *sql.DB
	prepare bool
	known   sync.Map // query to *sql.Stmt
}

func (r *reader) query(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if !r.prepare {
		return r.db.QueryContext(ctx, query, args...)
	}
	known, ok := r.known.Load(query)
	if !ok {
		made, err := r.db.PrepareContext(ctx, query)
		if err != nil {
			return nil, err
		}
		if known, ok = r.known.LoadOrStore(query, made); ok {
			_ = made.Close() //nolint:sqlclosecheck // another goroutine was first
		}
	}
	return known.(*sql.Stmt).QueryContext(ctx, args...)
}

// row reads the first row into dest, which stays as it is where there is none.
func (r *reader) row(ctx context.Context, query string, args []any, dest ...any) (err error) {
	rows, err := r.query(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	if !rows.Next() {
		return rows.Err()
	}
	return rows.Scan(dest...)
}

func (r *reader) close() error {
	var errs []error
	for _, s := range r.known.Range {
		errs = append(errs, s.(*sql.Stmt).Close())
	}
	r.known.Clear()
	return errors.Join(errs...)
}
