package auditlog

import (
	"context"
	"iter"
	"time"
)

// Store keeps the logs of any number of tenants. It is safe for use by many goroutines, and by many processes where it
// says so. An entry can be seen by all once Append has returned. A tenant in whose log nothing was written has an empty one.
type Store interface {
	// Append writes the records in their order, all of them or none, each at the end of its tenant's log. It takes no record
	// for which [Record.Err] has an error, and returns that. Without records it does nothing. Where something stands at the
	// end already it fails with a *[DamagedError].
	Append(ctx context.Context, records ...Record) error

	// Query answers one page. Items and Total are of the same view. Where the page lacks entries that were counted, or a part
	// of one, it fails with a *[DamagedError].
	Query(ctx context.Context, q Query) (Page, error)

	// Entries gives what fits the filter, oldest first, up to the snapshot as [Query] has it. It does not hold all of them at once.
	// An error is its last pair. Entries that are pruned meanwhile may be missing, always the oldest of what was to come.
	//
	// Without a filter and a snapshot, which is how [Verify] reads, the store also looks at what it keeps beside the entries
	// up to the last id and above it. Where that is not what Append left there, a *[DamagedError] is the last pair. What
	// others write or prune meanwhile must not look like that.
	Entries(ctx context.Context, tenantID string, f Filter, snapshot *uint64) iter.Seq2[Entry, error]

	// Head returns the last entry of the log, also where that was pruned; the zero Head where nothing was ever written.
	Head(ctx context.Context, tenantID string) (Head, error)

	// Checkpoint returns the last entry that was pruned; the zero Head where none was. The chain of what is left begins there.
	Checkpoint(ctx context.Context, tenantID string) (Head, error)

	// Prune takes away the entries created before a time, and tells how many there were. Ids, hashes and times of later
	// entries go on as if they were still there. The total of an old snapshot shrinks then, and only then.
	Prune(ctx context.Context, tenantID string, before time.Time) (uint64, error)
}
