package sqlaudit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/auditlog"
)

// The store does not know the driver, but what its errors can tell: pgx and lib/pq have a SQLState, modernc.org/sqlite a Code.

// sqlState is the five characters by which PostgreSQL names an error, or empty.
func sqlState(err error) string {
	var e interface{ SQLState() string }
	if errors.As(err, &e) {
		return e.SQLState()
	}
	return ""
}

// sqliteCode is SQLite's primary result code, or 0.
func sqliteCode(err error) int {
	var e interface{ Code() int }
	if errors.As(err, &e) {
		return e.Code() & 0xff
	}
	return 0
}

// transient tells that the transaction was rolled back for no fault of its own, and may be tried again.
func transient(err error) bool {
	switch sqlState(err) {
	case "40001", "40P01", "55P03": // serialization failure, deadlock, lock not available
		return true
	}
	code := sqliteCode(err)
	return code == 5 || code == 6 || errors.Is(err, errMoved) // busy, locked
}

// refused tells that the database took one look and did not like what it saw: another record may fare better.
func refused(err error) bool {
	state := sqlState(err)
	for _, class := range [...]string{"21", "22", "23", "42", "44", "54"} {
		if strings.HasPrefix(state, class) {
			return true
		}
	}
	code := sqliteCode(err)
	return code == 18 || code == 19 || code == 20 || code == 25 // too big, constraint, mismatch, range
}

// collision words an error of inserting entries with the log locked, where the database says that they are there. Nobody else
// can have appended them.
func collision(err error, tenantID string, id uint64) error {
	var sqlite interface{ Code() int }
	if sqlState(err) == "23505" || errors.As(err, &sqlite) && (sqlite.Code() == 1555 || sqlite.Code() == 2067) { // unique violations
		return fmt.Errorf("%w: %w", &auditlog.DamagedError{TenantID: tenantID, ID: id}, err)
	}
	return err
}

// answered tells that the server reported the error and has rolled back. Anything else leaves open what became of a commit:
// a lost connection does, and a server that was told to stop may have committed before.
func answered(err error) bool {
	state := sqlState(err)
	for _, class := range [...]string{"08", "57", "58", "F0", "XX", "40003"} {
		if strings.HasPrefix(state, class) {
			return false
		}
	}
	return state != "" || transient(err)
}

// attempts to run a transaction that fails for no fault of its own: about two seconds in all.
const attempts = 12

// pause waits before another attempt, longer each time.
func pause(ctx context.Context, attempt int) error {
	most := min(time.Millisecond<<attempt, 400*time.Millisecond)
	t := time.NewTimer(most/2 + rand.N(most/2)) //nolint:gosec // no secret
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
