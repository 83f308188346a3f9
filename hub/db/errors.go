package db

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"
)

// ErrUnavailable is wrapped by errors that say nothing about the statement: the database cannot be reached, went away,
// is shutting down, full, locked for too long, or a standby that takes no writes. The same may work a moment later.
var ErrUnavailable = errors.New("the database is unavailable")

var errStandby = errors.New("the server is a standby and takes no writes")

// SQLSTATE codes of PostgreSQL, or the classes of two letters that they begin with, which name a condition of the server
// and not a fault of the statement.
var unavailableStates = []string{
	"08",    // connection exceptions
	"40",    // serialization failures and deadlocks, after all retries
	"53",    // too many connections, disk full, out of memory
	"55P03", // lock_timeout
	"57",    // shut down, crashed, starting; cancelled from the server's side
	"58",    // errors of its system
	"25006", // a standby
}

// Primary result codes of SQLite of the same kind.
var unavailableCodes = []int{
	lib.SQLITE_BUSY, lib.SQLITE_LOCKED, lib.SQLITE_PROTOCOL, lib.SQLITE_IOERR, lib.SQLITE_FULL, lib.SQLITE_CANTOPEN, lib.SQLITE_NOMEM,
}

// What a connection that went away leaves behind.
var lostErrors = []error{
	driver.ErrBadConn, sql.ErrConnDone, io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, syscall.ECONNRESET, syscall.EPIPE,
}

// Unavailable tells whether err is of the kind of [ErrUnavailable], for the bare errors of [DB.Read] and [DB.Write].
func Unavailable(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) {
		return false
	}
	if errors.Is(err, ErrUnavailable) || errors.Is(err, errStandby) {
		return true
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return slices.Contains(unavailableStates, e.Code) || slices.Contains(unavailableStates, class(e)) || stalePlan(e)
	}
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return slices.Contains(unavailableCodes, e.Code()&0xff)
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true // also when the time to connect was up
	}
	// A DB that was closed while requests came in; database/sql has no value for that.
	closed := strings.HasSuffix(err.Error(), "sql: database is closed")
	return closed || !errors.Is(err, context.DeadlineExceeded) && lost(err)
}

// lost tells whether a connection that there was has gone.
func lost(err error) bool {
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return false
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return class(e) == "57" && e.Code != "57014" // which ends the statement alone
	}
	if _, ok := errors.AsType[*net.OpError](err); ok {
		return true
	}
	return slices.ContainsFunc(lostErrors, func(kind error) bool { return errors.Is(err, kind) })
}

// UniqueViolation tells whether err says that a row would have repeated a primary key or a unique one.
func UniqueViolation(err error) bool {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code == "23505"
	}
	e, ok := errors.AsType[*sqlite.Error](err)
	return ok && slices.Contains([]int{
		lib.SQLITE_CONSTRAINT_UNIQUE, lib.SQLITE_CONSTRAINT_PRIMARYKEY, lib.SQLITE_CONSTRAINT_ROWID,
	}, e.Code())
}

// retryable tells whether the engine undid the transaction because of others that ran beside it.
func retryable(err error) bool {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code == "40001" || e.Code == "40P01" || stalePlan(e)
	}
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		code := e.Code() & 0xff
		return code == lib.SQLITE_BUSY || code == lib.SQLITE_LOCKED
	}
	return false
}

// stalePlan tells whether the connection remembers a statement from before a migration changed the type of its result.
// It has forgotten it once it has said so.
func stalePlan(e *pgconn.PgError) bool {
	return e.Code == "0A000" && e.Routine == "RevalidateCachedQuery"
}

// refused tells of an error of COMMIT whether the engine answered that there is no such transaction any more. What comes
// with the end of a connection may have come after the transaction was made.
func refused(err error) bool {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return class(e) != "57" && class(e) != "08"
	}
	_, ok := errors.AsType[*sqlite.Error](err)
	return ok || errors.Is(err, pgx.ErrTxCommitRollback) || errors.Is(err, sql.ErrTxDone)
}

// class is the first half of an SQLSTATE.
func class(e *pgconn.PgError) string { return e.Code[:min(2, len(e.Code))] }

// classify marks an error as ErrUnavailable where it is. The end of the caller's own context is the caller's.
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

// Error is one line: pgx gives each address that it tried one of its own.
func (e *unavailableError) Error() string {
	return ErrUnavailable.Error() + ": " + strings.NewReplacer("\n\t", " ", "\n", " ").Replace(e.cause.Error())
}

func (e *unavailableError) Unwrap() []error { return []error{ErrUnavailable, e.cause} }
