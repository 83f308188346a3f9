// Package auditlog records who did what: declared actions, pages that do not shift during
// concurrent writes, and a hash chain that reveals later changes.
//
// An action is declared once, with a struct as its detail. [Action.Record] is the only way to
// create a [Record], so a log contains only what was declared:
//
//	type RoleChange struct {
//		Role auditlog.Change[string] `json:"role"`
//	}
//
//	var updateRole = auditlog.Define[RoleChange]("user.update_role")
//
//	change := auditlog.Change[string]{From: "member", To: "admin"}
//	err := logs.Append(ctx, updateRole.Record(event, RoleChange{change}))
//
// Package auditlog/sqlaudit stores logs in PostgreSQL or SQLite, auditlog/memaudit in memory.
// [Handlers] serve queries, exports and verifications over HTTP. The package has no built-in
// categories and no language, and imports only the standard library. Another [Store] is implemented
// with [Entry.Seal] and the methods of [Filter], and tested with auditlog/auditlogtest.
//
// # Ids, order and snapshots
//
// Each tenant has its own log. The id of an entry is its position in the log: 1, 2, 3 without a
// gap, assigned when the transaction commits. CreatedAt has microseconds and never decreases along
// ids, even if the clock does. A [Query] sees the entries up to a snapshot, an id that the first
// [Page] contains. No entry is ever added at or below a snapshot that was returned, so the pages
// and the total of one snapshot are consistent. Only [Store.Prune] deletes entries, oldest first.
//
// # The chain
//
// The hash of an entry is the SHA-256 of the previous hash and of all its fields, see [Entry.Sum].
// The first entry of a tenant follows 32 zero bytes. [Verify] computes the chain again and reports
// changed, missing and added entries. It cannot detect a change after which all later hashes were
// computed again. To detect that too, record the [Head] elsewhere at regular intervals and pass it
// to Verify. Verify also reports damage in other data that a store keeps, such as an index. Other
// methods of a store that encounter such damage fail with a [DamagedError].
//
// An export contains the hashes and can be verified without this package:
//
//	hash = SHA-256(previous hash, 32 bytes
//	               "auditlog/1\n"
//	               id, 8 bytes, big endian
//	               createdAt in microseconds since 1970-01-01T00:00:00Z, 8 bytes, big endian,
//	               two's complement
//	               tenantId, userId, userName, category, action, targetType, targetId, targetName,
//	               status, detail, remoteIp, userAgent: each its length in bytes as 4 bytes, big
//	               endian, and then its UTF-8 bytes)
//
// detail is the exact JSON text of the export, or "null" without a detail.
package auditlog

import (
	"context"
	"encoding/json"
	"iter"
	"strings"
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

// Query selects entries of one tenant, newest first.
type Query struct {
	TenantID string
	Filter

	// Snapshot limits the query to the entries whose id is at most this. A value above the newest
	// id is reduced to it, so that a view never grows. Nil means the newest id.
	Snapshot *uint64

	Offset uint64 // number of the newest entries to skip; a page after the last one is empty
	Limit  int    // maximum number of items; none if it is 0 or less
	Bytes  int    // maximum number of bytes of their details, of which the first item may have more; unlimited if 0
}

// Page is the result of a Query.
type Page struct {
	Items    []Entry `json:"items"`             // newest first
	Total    uint64  `json:"total"`             // number of matching entries
	Snapshot uint64  `json:"snapshotId,string"` // 0 if nothing was ever written
}

// Pruning is the detail of the entry that records a pruning. The action is declared by the caller,
// with the verb prune_audit:
//
//	var pruneAudit = auditlog.Define[auditlog.Pruning]("auth.prune_audit")
//
// [Store.Prune] appends the entry in the transaction that deletes the first entries. [Verify]
// reports a log whose oldest entries are missing unless such an entry explains it.
type Pruning struct {
	Entries          uint64    `json:"entries"`          // number of deleted entries
	Before           time.Time `json:"before"`           // they were created before this time
	RetentionSeconds int64     `json:"retentionSeconds"` // rounded down
	Checkpoint       Head      `json:"checkpoint"`       // the last of them
}

const pruneVerb = "prune_audit"

func isPruning(action string) bool { return strings.HasSuffix(action, "."+pruneVerb) }

// clockStep is how far a clock may be set back between the begin of a pruning and the write of its
// entry.
const clockStep = time.Minute

// explains returns the checkpoint that the entry of a pruning records. It reports false for any
// other entry, and for a pruning that its own retention does not justify.
func explains(e Entry) (Head, bool) {
	var p Pruning
	if !isPruning(e.Action) || json.Unmarshal(e.Detail, &p) != nil {
		return Head{}, false
	}

	old := e.CreatedAt.Add(clockStep - time.Duration(p.RetentionSeconds)*time.Second)
	return p.Checkpoint, p.Checkpoint.ID < e.ID && p.Checkpoint.CreatedAt.Before(p.Before) && !p.Before.After(old)
}
