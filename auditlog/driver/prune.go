package driver

import (
	"errors"
	"time"

	"github.com/seed93082962/agenthost/auditlog"
)

// Cutoff returns the time before which entries are older than the retention, by the earliest of the
// clocks: a clock that is ahead deletes nothing.
func Cutoff(retention time.Duration, clock time.Time, others ...time.Time) (time.Time, error) {
	if retention < 0 {
		return time.Time{}, errors.New("the retention is negative")
	}
	for _, c := range others {
		if c.Before(clock) {
			clock = c
		}
	}
	return clock.UTC().Add(-retention), nil
}

// PruningRecord returns the record of a pruning that deletes the entries after checkpoint up to and
// including last.
func PruningRecord(action auditlog.Action[auditlog.Pruning], tenantID string, checkpoint, last auditlog.Head,
	cutoff time.Time, retention time.Duration,
) auditlog.Record {
	return action.Record(auditlog.Event{TenantID: tenantID}, auditlog.Pruning{
		Entries: last.ID - checkpoint.ID, Before: cutoff, RetentionSeconds: int64(retention / time.Second), Checkpoint: last,
	})
}
