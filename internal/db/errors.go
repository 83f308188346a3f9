package db

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"

	"github.com/seed93082962/agenthost/internal/leaf/sqlerr"
)

// ErrUnavailable is wrapped by errors that describe the state of the database and not a fault of
// the statement: a connection cannot be made for any reason, or the database was disconnected, is
// shutting down, full, locked for too long, or a standby that takes no writes. The same statement
// may succeed later.
var ErrUnavailable = errors.New("the database is unavailable")

var (
	errStandby = errors.New("the server is a standby and takes no writes")
	errFull    = errors.New("the disk is full")
)

// connectError is the error of a connection to SQLite that could not be made.
type connectError struct{ cause error }

func (e *connectError) Error() string { return e.cause.Error() }
func (e *connectError) Unwrap() error { return e.cause }

// lostErrors are the errors of a connection that was closed.
var lostErrors = []error{
	driver.ErrBadConn, sql.ErrConnDone, pgconn.ErrConnClosed, io.EOF, io.ErrUnexpectedEOF, net.ErrClosed,
	syscall.ECONNRESET, syscall.EPIPE,
}

// Unavailable reports whether err is an [ErrUnavailable], also for the unwrapped errors of
// [DB.Read] and [DB.Write].
func Unavailable(err error) bool {
	switch {
	case err == nil || errors.Is(err, context.Canceled):
		return false
	case errors.Is(err, ErrUnavailable), errors.Is(err, errStandby), errors.Is(err, errFull), connectFailed(err):
		return true
	case sqlerr.Unavailable(err), stalePlan(err):
		return true
	case strings.HasSuffix(err.Error(), "sql: database is closed"): // database/sql has no value for it
		return true
	}

	return !errors.Is(err, context.DeadlineExceeded) && lost(err)
}

// connectFailed reports whether no connection could be made. The cause does not matter, which may
// be the password, the database that was dropped or accepts no connections, or the time limit.
func connectFailed(err error) bool {
	_, postgres := errors.AsType[*pgconn.ConnectError](err)
	_, sqlite := errors.AsType[*connectError](err)
	return postgres || sqlite
}

// lost reports whether an existing connection was closed.
func lost(err error) bool {
	switch {
	case connectFailed(err):
		return false
	case sqlerr.State(err) != "":
		return sqlerr.Disconnected(err)
	}

	_, network := errors.AsType[*net.OpError](err)
	return network || slices.ContainsFunc(lostErrors, func(kind error) bool { return errors.Is(err, kind) })
}

// UniqueViolation reports whether a row would have repeated a primary or unique key.
func UniqueViolation(err error) bool { return sqlerr.UniqueViolation(err) }

// retryable reports whether the engine rolled back the transaction because of concurrent ones.
func retryable(err error) bool { return sqlerr.Retryable(err) || stalePlan(err) }

// stalePlan reports whether the connection prepared the statement before a migration changed the
// type of its result. pgx prepares it again after this error.
func stalePlan(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && e.Code == "0A000" && e.Routine == "RevalidateCachedQuery"
}

// rolledBack reports whether an error of COMMIT means that the transaction was not committed.
func rolledBack(err error) bool {
	return sqlerr.RolledBack(err) || errors.Is(err, pgx.ErrTxCommitRollback) || errors.Is(err, sql.ErrTxDone)
}

// classify wraps an error of the database's state in ErrUnavailable, unless the caller's own
// context has ended.
func classify(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil || !Unavailable(err) {
		return err
	}

	return unavailable(err)
}

func unavailable(cause error) error {
	if errors.Is(cause, ErrUnavailable) {
		return cause
	}

	return &unavailableError{cause}
}

type unavailableError struct{ cause error }

// Error returns one line: pgx writes a line for each address that it tried.
func (e *unavailableError) Error() string {
	return ErrUnavailable.Error() + ": " + strings.NewReplacer("\n\t", " ", "\n", " ").Replace(e.cause.Error())
}

func (e *unavailableError) Unwrap() []error { return []error{ErrUnavailable, e.cause} }

// maxBusy bounds the time that a transaction waits for a file that another process has locked.
const maxBusy = 5 * time.Second

// patient opens connections whose transactions wait for a locked file until their context ends.
// SQLite itself waits for busyTimeout and cannot be interrupted in that time: the end of a context
// may be noticed that late.
type patient struct{ driver.Connector }

func openPatient(name string) (driver.Connector, error) {
	inner, err := sqlite.NewConnector(name)
	if err != nil {
		return nil, err
	}

	return patient{inner}, nil
}

func (p patient) Connect(ctx context.Context) (driver.Conn, error) {
	began := time.Now()
	for {
		c, err := p.Connector.Connect(ctx)
		if err == nil {
			conn, ok := c.(sqliteConn)
			if !ok {
				_ = c.Close()
				return nil, fmt.Errorf("connect: %T of the driver lacks methods", c)
			}

			return &patientConn{conn, statements{}}, nil
		}

		// Concurrent first connections to a new file all change it to WAL. SQLite returns busy to
		// some of them without waiting.
		if !pause(ctx, err, began) {
			return nil, &connectError{err}
		}
	}
}

// sqliteConn has all optional interfaces of database/sql that the driver implements.
type sqliteConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

type patientConn struct {
	sqliteConn
	statements statements
}

// BeginTx waits for the lock. It can be repeated, because the transaction has not changed anything
// yet.
func (c *patientConn) BeginTx(ctx context.Context, options driver.TxOptions) (driver.Tx, error) {
	began := time.Now()
	for {
		tx, err := c.sqliteConn.BeginTx(ctx, options)
		if err == nil || !pause(ctx, err, began) {
			return tx, err
		}
	}
}

// pause waits, and reports whether the call should be repeated.
func pause(ctx context.Context, err error, began time.Time) bool {
	return retryable(err) && time.Since(began) < maxBusy && wait(ctx, firstPause)
}
