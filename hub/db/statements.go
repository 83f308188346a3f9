package db

import (
	"context"
	"database/sql/driver"
)

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
	return stmt.(sqliteStmt), nil //nolint:forcetypeassert // a test would fail
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
