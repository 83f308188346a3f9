package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// Scanner is a row. *sql.Row and *sql.Rows implement it.
type Scanner interface{ Scan(dest ...any) error }

// Querier is a pool or a transaction. *sql.DB and *sql.Tx implement it.
type Querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Wrap wraps err with the operation that failed, such as "read agent". It returns nil for nil. The
// result wraps [ErrUnavailable] if the database was unavailable: the response is then 503 and never
// 401.
func Wrap(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case Unavailable(err) && !errors.Is(err, ErrUnavailable):
		return fmt.Errorf("%s: %w: %w", what, ErrUnavailable, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// Affected runs a statement and returns the number of changed rows.
func Affected(ctx context.Context, q Querier, what, query string, args ...any) (int64, error) {
	res, err := q.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, Wrap(what, err)
	}
	n, err := res.RowsAffected()
	return n, Wrap(what, err)
}

// Collect runs a query and returns all rows, as scan reads them.
func Collect[T any](ctx context.Context, q Querier, what string, scan func(Scanner) (T, error), query string, args ...any) ([]T, error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, Wrap(what, err)
	}
	defer func() { _ = rows.Close() }() // rows.Err returns the error
	var all []T
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, Wrap(what, err)
		}
		all = append(all, v)
	}
	return all, Wrap(what, rows.Err())
}

// NullTime converts a column that may be NULL to a time. NULL is the zero time.
func NullTime(n sql.NullInt64) time.Time {
	if !n.Valid {
		return time.Time{}
	}
	return Time(n.Int64)
}

// NullMicros converts a time to a column that may be NULL. The zero time is NULL.
func NullMicros(t time.Time) sql.NullInt64 {
	if t.IsZero() {
		return sql.NullInt64{}
	}
	return sql.NullInt64{Int64: Micros(t), Valid: true}
}
