// Package sqlerr classifies the errors of PostgreSQL and SQLite for packages that import no driver.
// It reads the SQLSTATE of an error with a method SQLState() string (pgx, lib/pq), and the extended
// result code of one with a method Code() int (modernc.org/sqlite).
package sqlerr

import (
	"errors"
	"slices"
)

// Primary result codes of SQLite.
const (
	sqliteBusy       = 5
	sqliteLocked     = 6
	sqliteNoMem      = 7
	sqliteInterrupt  = 9
	sqliteIOErr      = 10
	sqliteCorrupt    = 11
	sqliteFull       = 13
	sqliteCantOpen   = 14
	sqliteProtocol   = 15
	sqliteConstraint = 19
)

// Extended result codes of SQLite for a repeated key.
const (
	constraintPrimaryKey = sqliteConstraint | 6<<8
	constraintUnique     = sqliteConstraint | 8<<8
	constraintRowID      = sqliteConstraint | 10<<8
)

// State returns the SQLSTATE of a PostgreSQL error, or "".
func State(err error) string {
	var e interface{ SQLState() string }
	if errors.As(err, &e) {
		return e.SQLState()
	}

	return ""
}

// code returns the extended result code of a SQLite error, or 0.
func code(err error) int {
	var e interface{ Code() int }
	if State(err) == "" && errors.As(err, &e) {
		return e.Code()
	}

	return 0
}

// has reports whether the SQLSTATE of err is one of the states, each of which is a whole SQLSTATE
// or a class of two characters.
func has(err error, states ...string) bool {
	state := State(err)
	return state != "" && (slices.Contains(states, state) || slices.Contains(states, state[:min(2, len(state))]))
}

// isCode reports whether the primary result code of err is one of the codes.
func isCode(err error, codes ...int) bool { return slices.Contains(codes, code(err)&0xff) }

// Retryable reports whether the engine rolled back the transaction because of concurrent ones: a
// serialization failure, a deadlock, a locked file. The same transaction may succeed when it is
// repeated.
func Retryable(err error) bool {
	return has(err, "40001", "40P01") || isCode(err, sqliteBusy, sqliteLocked)
}

// LockTimeout reports whether PostgreSQL ended the wait for a lock.
func LockTimeout(err error) bool { return has(err, "55P03") }

// Interrupted reports whether SQLite ended a statement because its context ended.
func Interrupted(err error) bool { return isCode(err, sqliteInterrupt) }

// UniqueViolation reports whether a row would have repeated a primary or unique key.
func UniqueViolation(err error) bool {
	return has(err, "23505") || slices.Contains([]int{constraintPrimaryKey, constraintUnique, constraintRowID}, code(err))
}

// Unavailable reports whether err describes the state of the server or the file, so that the same
// statement may succeed later: it shuts down or starts, the disk is full, there are too many
// connections, a lock is not released, a standby rejects writes, a transaction was idle for too
// long.
func Unavailable(err error) bool {
	return has(err, "08", "40", "53", "55P03", "57", "58", "25006", "25P03") ||
		isCode(err, sqliteBusy, sqliteLocked, sqliteProtocol, sqliteIOErr, sqliteFull, sqliteCantOpen, sqliteNoMem)
}

// Disconnected reports whether PostgreSQL, or a pooler in front of it, ended the connection with
// the error.
func Disconnected(err error) bool {
	return has(err, "08", "57", "25P03") && State(err) != "57014" // which cancels only the statement
}

// RolledBack reports whether the engine itself returned the error of a COMMIT, so that the
// transaction was not committed. After any other error the outcome is unknown: the connection may
// be lost, or the server shut down, after the commit.
func RolledBack(err error) bool {
	if State(err) != "" {
		return !has(err, "08", "57", "58", "F0", "XX", "40003")
	}

	return code(err) != 0 && !isCode(err, sqliteIOErr, sqliteCorrupt)
}
