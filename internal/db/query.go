package db

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strconv"
	"strings"
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

// WrapOne is [Wrap] for the error of reading one row. Without a row it returns none, which may be
// nil.
func WrapOne(what string, err, none error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return none
	}

	return Wrap(what, err)
}

// Exec runs a statement.
func Exec(ctx context.Context, q Querier, what, query string, args ...any) error {
	_, err := q.ExecContext(ctx, query, args...)
	return Wrap(what, err)
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

// Value runs a query of one row with one column.
func Value[T any](ctx context.Context, q Querier, what, query string, args ...any) (T, error) {
	var v T
	err := q.QueryRowContext(ctx, query, args...).Scan(&v)
	return v, Wrap(what, err)
}

// Values runs a query of one column and returns that of all rows.
func Values[T any](ctx context.Context, q Querier, what, query string, args ...any) ([]T, error) {
	return Collect(ctx, q, what, func(row Scanner) (v T, err error) {
		err = row.Scan(&v)
		return v, err
	}, query, args...)
}

// Page is a part of the rows of a query in an order.
type Page struct {
	Order  string
	Limit  int
	Offset int
}

// maxPageBytes bounds the rows of a page that know their size.
const maxPageBytes = 8 << 20

// sized is a row that knows about how many bytes it has in memory.
type sized interface{ Bytes() int }

// errPageFull ends a page whose rows have enough bytes.
var errPageFull = errors.New("the page is full")

// List returns a page of the rows of a query, and the number of all rows. A page of rows with a
// method Bytes() int ends at 8 MiB.
func List[T any](
	ctx context.Context, q Querier, what string, scan func(Scanner) (T, error), p Page, query string, args ...any,
) ([]T, int, error) {
	total, err := Value[int](ctx, q, "count: "+what, `SELECT COUNT(*) FROM (`+query+`) AS found`, args...)
	if err != nil || p.Limit == 0 || p.Offset >= total {
		return nil, total, err
	}

	n := len(args)
	query += fmt.Sprintf(` ORDER BY %s LIMIT $%d OFFSET $%d`, p.Order, n+1, n+2)
	size := 0
	var page []T
	_, err = Collect(ctx, q, what, func(from Scanner) (struct{}, error) {
		row, err := scan(from)
		if err != nil {
			return struct{}{}, err
		}

		if r, ok := any(row).(sized); ok {
			if size += r.Bytes(); size > maxPageBytes && len(page) > 0 {
				return struct{}{}, errPageFull
			}
		}

		page = append(page, row)
		return struct{}{}, nil
	}, query, append(slices.Clip(args), p.Limit, p.Offset)...)
	if errors.Is(err, errPageFull) {
		err = nil
	}

	return page, total, err
}

// Rows returns the placeholders of VALUES from a number: ($1,$2),($3,$4) for two rows of two from
// 1.
func Rows(first, rows, width int) string {
	var b strings.Builder
	for n := range rows * width {
		switch {
		case n == 0:
			b.WriteByte('(')
		case n%width == 0:
			b.WriteString("),(")
		default:
			b.WriteByte(',')
		}

		b.WriteByte('$')
		b.WriteString(strconv.Itoa(first + n))
	}

	b.WriteByte(')')
	return b.String()
}

// Table returns a table with the placeholders of Rows for FROM, whose columns are column1, column2
// and so on. PostgreSQL needs their types, and SQLite the limit: otherwise it takes the table for a
// large one, and reads all of the table that is joined with it.
func Table(first, rows int, types ...string) string {
	var b strings.Builder
	for i, name := range types {
		b.WriteString(",CAST($" + strconv.Itoa(first+i) + " AS " + name + ")")
	}

	all := "(" + b.String()[1:] + ")"
	if rows > 1 {
		all += "," + Rows(first+len(types), rows-1, len(types))
	}

	return "(SELECT * FROM (VALUES " + all + ") AS given LIMIT " + strconv.Itoa(rows) + ")"
}

// maxWidth is the largest number of rows of Chunks.
const maxWidth = 32

// Chunks returns the elements in parts of 32, 16, 8, 4, 2 and 1: statements with a row for each
// element have few texts, so that they stay prepared.
func Chunks[T any](all []T) iter.Seq[[]T] {
	return func(yield func([]T) bool) {
		for n := maxWidth; len(all) > 0; all = all[n:] {
			for n > len(all) {
				n /= 2
			}

			if !yield(all[:n:n]) {
				return
			}
		}
	}
}

// inWidth is the number to whose multiples the values of In are filled up, so that few statements
// are prepared.
const inWidth = 25

// In returns the placeholders of IN for values, of which there is at least one, and the arguments
// with them after the others.
func In(others []any, values []string) (string, []any) {
	n := (len(values) + inWidth - 1) / inWidth * inWidth
	args := slices.Clip(others)
	for i := range n {
		args = append(args, values[min(i, len(values)-1)])
	}

	return Rows(len(others)+1, 1, n), args
}

// JSON is a column with the JSON of the value that V points to. A zero value is stored as Zero.
// NULL and "" leave the value unchanged.
type JSON struct {
	V    any
	Zero driver.Value
}

// Value implements driver.Valuer.
func (j JSON) Value() (driver.Value, error) {
	if reflect.ValueOf(j.V).Elem().IsZero() {
		return j.Zero, nil
	}

	text, err := json.Marshal(j.V)
	return string(text), err
}

// Scan implements sql.Scanner.
func (j JSON) Scan(src any) error {
	var text sql.NullString
	if err := text.Scan(src); err != nil || text.String == "" {
		return err
	}

	return json.Unmarshal([]byte(text.String), j.V)
}

// Containing returns the pattern of LIKE ... ESCAPE '\' for texts that contain a text, of which
// every character is literal.
func Containing(text string) string {
	return "%" + strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(text) + "%"
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

// Bounds of the prepared statements that a connection to SQLite keeps. To prepare a statement takes
// longer than most runs of it.
const (
	maxStatements = 64
	maxStatement  = 4 << 10 // bytes of the text: a statement takes several times as many
)

// statements are the prepared statements of a connection by their text, without those in use.
// database/sql serializes the calls of a connection.
type statements map[string]sqliteStmt

// sqliteStmt has all optional interfaces of database/sql that the statements of the driver
// implement.
type sqliteStmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

// ExecContext runs a statement.
func (c *patientConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	stmt, err := c.take(ctx, query)
	if err != nil {
		return nil, err
	}

	result, err := stmt.ExecContext(ctx, args)
	return result, c.put(query, stmt, err)
}

// QueryContext runs a query, whose statement is in use until the rows are closed.
func (c *patientConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	stmt, err := c.take(ctx, query)
	if err != nil {
		return nil, err
	}

	rows, err := stmt.QueryContext(ctx, args)
	if err != nil {
		return nil, c.put(query, stmt, err)
	}

	return &statementRows{rows, c, query, stmt}, nil
}

// take returns a prepared statement that is not in use.
func (c *patientConn) take(ctx context.Context, query string) (sqliteStmt, error) {
	if stmt := c.statements[query]; stmt != nil {
		delete(c.statements, query)
		return stmt, nil
	}

	stmt, err := c.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}

	return stmt.(sqliteStmt), nil
}

// put keeps a statement whose run returned err, which it returns. One that failed is closed.
func (c *patientConn) put(query string, stmt sqliteStmt, err error) error {
	if err != nil || len(query) > maxStatement || c.statements[query] != nil {
		_ = stmt.Close() // repeats err
		return err
	}

	for other, old := range c.statements {
		if len(c.statements) < maxStatements {
			break
		}

		delete(c.statements, other) // any of them
		_ = old.Close()             // has no error after a run without one
	}

	c.statements[query] = stmt
	return nil
}

// Close closes the connection and its statements.
func (c *patientConn) Close() error {
	for _, stmt := range c.statements {
		_ = stmt.Close() // has no error after a run without one
	}

	clear(c.statements)
	return c.sqliteConn.Close()
}

// statementRows are the rows of a query.
type statementRows struct {
	driver.Rows
	conn  *patientConn
	query string
	stmt  sqliteStmt
}

// Close makes the statement available. database/sql calls it once.
func (r *statementRows) Close() error { return r.conn.put(r.query, r.stmt, r.Rows.Close()) }

// Micros returns the stored form of a time: microseconds since 1970, which both engines store and
// compare exactly.
func Micros(t time.Time) int64 { return t.UnixMicro() }

// Time returns the time, in UTC, of which [Micros] returned micros.
func Time(micros int64) time.Time { return time.UnixMicro(micros).UTC() }
