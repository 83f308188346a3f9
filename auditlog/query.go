package auditlog

import "time"

// Filter selects entries that match all of its conditions. The zero Filter selects all entries.
type Filter struct {
	Category string // exact
	Action   string // exact

	// User is a part of the user's name or id. ASCII letters match in either case, and no character
	// is special.
	User string

	// From and To are inclusive bounds of CreatedAt, compared with nanosecond precision. The zero
	// time means no bound.
	From, To time.Time
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
}

// Page is the result of a Query.
type Page struct {
	Items    []Entry `json:"items"`             // newest first
	Total    uint64  `json:"total"`             // number of matching entries
	Snapshot uint64  `json:"snapshotId,string"` // 0 if nothing was ever written
}
