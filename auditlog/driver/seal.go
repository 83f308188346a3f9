package driver

import (
	"time"

	"github.com/seed93082962/agenthost/auditlog"
)

// Seal completes the entry of a record as the one that follows last in the log of its tenant.
// CreatedAt becomes now in microseconds, or the time of last if the clock went back. The caller
// holds the lock of the tenant's head and has checked [auditlog.Record.Err].
func Seal(e *auditlog.Entry, last auditlog.Head, now time.Time) {
	e.ID = last.ID + 1
	e.CreatedAt = now.UTC().Truncate(time.Microsecond)
	if e.CreatedAt.Before(last.CreatedAt) {
		e.CreatedAt = last.CreatedAt.UTC()
	}
	e.Hash = e.Sum(last.Hash)
}
