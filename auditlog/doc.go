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
//	err := store.Append(ctx, updateRole.Record(event, RoleChange{change}))
//
// Package auditlog/sqlaudit stores logs in PostgreSQL or SQLite, auditlog/memaudit in memory.
// [Handlers] serve queries, exports and verifications over HTTP. The package has no built-in
// categories and no language, and imports only the standard library. Another [Store] is implemented
// with auditlog/driver and tested with auditlog/auditlogtest.
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
