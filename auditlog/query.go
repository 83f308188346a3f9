package auditlog

import (
	"math"
	"strings"
	"time"
)

// Filter says which entries are wanted; an entry must fit all of it. The zero Filter takes all.
type Filter struct {
	Category string // exactly
	Action   string // exactly
	User     string // a part of the user's name or id; ASCII letters match without regard to case, and no character is special

	// Entries created at these times or between them; a zero time is no bound. Bounds are compared with CreatedAt as they
	// are, with nanoseconds.
	From, To time.Time
}

// Query asks for the entries of one tenant, newest first.
type Query struct {
	TenantID string
	Filter

	// Snapshot is the view to look at: the entries whose id is at most this. A snapshot above the last id is cut down to it, so
	// that a view never grows. Nil takes the last id.
	Snapshot *uint64

	Offset uint64 // how many of the newest to leave out; beyond the total there are no items
	Limit  int    // the most items to give; none where it is 0 or less
}

// Page is the answer to a Query.
type Page struct {
	Items    []Entry `json:"items"`             // newest first
	Total    uint64  `json:"total"`             // how many entries fit the filter in this view
	Snapshot uint64  `json:"snapshotId,string"` // the view that was used; 0 where nothing was ever written
}

// View returns the snapshot that a query uses when last is the highest id of its tenant.
func (q Query) View(last uint64) uint64 {
	if q.Snapshot == nil {
		return last
	}
	return min(*q.Snapshot, last)
}

// Matches tells whether an entry fits.
func (f Filter) Matches(e Entry) bool {
	from, to := f.Micros()
	at := e.CreatedAt.UnixMicro()
	user := Fold(f.User)
	return at >= from && at <= to &&
		(f.Category == "" || f.Category == e.Category) &&
		(f.Action == "" || f.Action == e.Action) &&
		(user == "" || strings.Contains(Fold(e.UserName), user) || strings.Contains(Fold(e.UserID), user))
}

// Micros returns the time range as inclusive Unix microseconds; a missing bound is the smallest or largest int64. A bound
// between two microseconds moves into the range, because all entries stand on whole ones.
func (f Filter) Micros() (from, to int64) {
	from, to = math.MinInt64, math.MaxInt64
	if !f.From.IsZero() {
		from = micros(f.From)
		if f.From.Nanosecond()%1000 != 0 && from < math.MaxInt64 {
			from++
		}
	}
	if !f.To.IsZero() {
		to = micros(f.To)
	}
	return from, to
}

// Void tells that no entry of any log can fit: From is later than To, Action is not of Category, or a text is one that
// entries never hold. A store then need not look, and PostgreSQL would refuse some of these texts.
func (f Filter) Void() bool {
	from, to := f.Micros()
	if from > to || !storable(f.Category) || !storable(f.Action) || !storable(f.User) {
		return true
	}
	return f.Category != "" && f.Action != "" && !strings.HasPrefix(f.Action, f.Category+".") ||
		len(f.Action) > maxActionName || len(f.Category) > maxActionName || len(f.User) > 4*max(maxUserID, maxUserName)
}

// Fold puts ASCII letters into lower case and leaves all else alone: what [Filter.User] is compared by.
func Fold(s string) string {
	for i := range len(s) {
		if 'A' <= s[i] && s[i] <= 'Z' {
			b := []byte(s)
			for j := i; j < len(b); j++ {
				if 'A' <= b[j] && b[j] <= 'Z' {
					b[j] += 'a' - 'A'
				}
			}
			return string(b)
		}
	}
	return s
}

// micros is floored, and saturates far outside the years that RFC 3339 can tell.
func micros(t time.Time) int64 {
	const reach = 1 << 43 // seconds, about 280,000 years: within what an int64 of microseconds holds
	switch s := t.Unix(); {
	case s > reach:
		return math.MaxInt64
	case s < -reach:
		return math.MinInt64
	}
	return t.UnixMicro()
}
