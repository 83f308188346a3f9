package sqlaudit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
)

// querier is a pool, a transaction of it, or a transaction that writes.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// execer is a transaction that writes.
type execer interface {
	querier
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// forEach calls scan for each row of a query.
func forEach(ctx context.Context, db querier, query string, args []any, scan func(row *sql.Rows) error) (err error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// scanRow scans the only row of a query into dest. Without a row, dest is unchanged.
func scanRow(ctx context.Context, db querier, query string, args []any, dest ...any) error {
	return forEach(ctx, db, query, args, func(row *sql.Rows) error { return row.Scan(dest...) })
}

// pool reads from a database. On SQLite it prepares each statement once: the pure Go SQLite takes
// longer to compile most of them than to run them. The texts contain no values, so there are few.
// Snapshots do not use these statements, because the pool may have only one connection.
type pool struct {
	db       *sql.DB
	prepare  bool
	prepared sync.Map // text to *sql.Stmt
}

// QueryContext implements querier.
func (p *pool) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if !p.prepare {
		return p.db.QueryContext(ctx, query, args...)
	}
	known, ok := p.prepared.Load(query)
	if !ok {
		made, err := p.db.PrepareContext(ctx, query)
		if err != nil {
			return nil, err
		}
		if known, ok = p.prepared.LoadOrStore(query, made); ok {
			_ = made.Close() //nolint:sqlclosecheck // another goroutine prepared it first
		}
	}
	return known.(*sql.Stmt).QueryContext(ctx, args...)
}

// snapshot runs read in a transaction in which all statements see the same state of the database.
func (p *pool) snapshot(ctx context.Context, read func(querier) error) error {
	tx, err := p.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer func() { _ = tx.Rollback() }()
	err = read(tx)
	if errors.Is(err, sql.ErrTxDone) && ctx.Err() != nil { // how database/sql reports it
		return context.Cause(ctx)
	}
	return err
}

func (p *pool) close() error {
	var errs []error
	for _, s := range p.prepared.Range {
		errs = append(errs, s.(*sql.Stmt).Close())
	}
	p.prepared.Clear()
	return errors.Join(errs...)
}
