// Package auditlog keeps a log of who did what: declared actions, pages that do not shift while others write, and a hash
// chain that shows whether anything was changed afterwards.
//
// An action is declared once, with a struct as its detail, and [Action.Record] is the only way to make something that
// a [Store] takes. So nothing but what was declared can get into the log:
//
//	type RoleChange struct {
//		Role auditlog.Change[string] `json:"role"`
//	}
//
//	var updateRole = auditlog.Define[RoleChange]("user.update_role")
//
//	err := store.Append(ctx, updateRole.Record(event, RoleChange{auditlog.Change[string]{From: "member", To: "admin"}}))
//
// [Memory] keeps entries in the process; package auditlog/sqlaudit keeps them in PostgreSQL or SQLite; the suite in
// auditlog/auditlogtest tells whether another Store does what is promised here. [Handlers] serve queries, exports and
// checks of the chain over HTTP. The package knows no categories and no language, and imports the standard library only.
//
// # Ids, order and snapshots
//
// Each tenant has its own log. The id of an entry is its position there: 1, 2, 3 without a gap, given by the store when
// it commits. CreatedAt has microseconds and never decreases along ids, even where the clock does. A [Query] sees the
// entries up to a snapshot, an id that the first [Page] tells: nothing ever appears at or below a snapshot that was
// handed out, so pages and totals of one snapshot fit together. Only [Store.Prune] takes entries away, oldest first.
//
// # The chain
//
// The hash of an entry is the SHA-256 of the hash before it and of all its fields, see [Entry.Sum]. The first entry of a
// tenant follows 32 zero bytes. [Verify] computes the chain again. It finds a changed, missing or added entry unless
// whoever did that also computed all later hashes anew; against that, note the [Head] elsewhere from time to time and
// hand it to Verify. It also finds what was put above the last entry, and whatever a store keeps beside the entries, such
// as an index, that is not as it must be. Where a store meets such damage by itself it fails with a [DamagedError] rather
// than answer less than there was. An export carries the hashes, so that it can be checked without this package:
//
//	hash = SHA-256(previous hash, 32 bytes
//	               "auditlog/1\n"
//	               id, 8 bytes, big endian
//	               createdAt in microseconds since 1970-01-01T00:00:00Z, 8 bytes, big endian, two's complement
//	               tenantId, userId, userName, category, action, targetType, targetId, targetName, status,
//	               detail, remoteIp, userAgent: each its length in bytes as 4 bytes, big endian, and then its UTF-8 bytes)
//
// where detail is the JSON text as it stands in the export, to the byte, and "null" where there is none.
package auditlog
