package auditlog

import (
	"context"
	"iter"
	"time"
)

// Store stores the logs of any number of tenants. It is safe for concurrent use. All readers can
// see an entry after Append has returned. The log of an unknown tenant is empty.
type Store interface {
	// Append appends the records in their order, each to the log of its tenant: all of them or
	// none. It returns the error of [Record.Err] if a record has one. If an entry exists after the
	// newest one, it fails with a *[DamagedError].
	Append(ctx context.Context, records ...Record) error

	// Query returns one page. Items and Total are of the same snapshot. If an entry of the page is
	// missing, or a part of one, Query fails with a *[DamagedError].
	Query(ctx context.Context, q Query) (Page, error)

	// Entries yields the entries that match the filter, oldest first, up to the snapshot, which is
	// used as in [Query]. It does not hold all of them in memory. An error is the last pair.
	// Entries that are pruned during the iteration may be missing: always the oldest of those that
	// were not yet yielded.
	//
	// Without a filter and a snapshot, as [Verify] calls it, the store also verifies the other data
	// that it keeps about the log, and that no entry exists after the newest one. If that fails, a
	// *[DamagedError] is the last pair. Concurrent appends and prunings must not cause it.
	Entries(ctx context.Context, tenantID string, f Filter, snapshot *uint64) iter.Seq2[Entry, error]

	// Head returns the newest entry of the log, or the zero Head if nothing was ever written.
	Head(ctx context.Context, tenantID string) (Head, error)

	// Checkpoint returns the last pruned entry, or the zero Head. The chain of the remaining
	// entries begins there.
	Checkpoint(ctx context.Context, tenantID string) (Head, error)

	// Prune deletes the entries that are older than the retention, and returns their number. The
	// time is that of the store or of its database, whichever is earlier. If there are such
	// entries, the pruning itself is appended to the log, as an entry of the given action, in the
	// transaction that deletes the first of them. Later ids, hashes and times continue as before.
	// The total of an old snapshot shrinks then, and only then.
	Prune(ctx context.Context, tenantID string, retention time.Duration, as Action[Pruning]) (uint64, error)
}
