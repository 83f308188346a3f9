package auditlog

import (
	"math"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/internal/leaf/auditstore"
)

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

	AfterID uint64 // only entries with larger ids
}

// Matches reports whether an entry matches all conditions of the filter.
func (f Filter) Matches(e Entry) bool {
	from, to := f.Micros()
	at := e.CreatedAt.UnixMicro()
	user := auditstore.Fold(f.User)
	return at >= from && at <= to && e.ID > f.AfterID &&
		(f.Category == "" || f.Category == e.Category) &&
		(f.Action == "" || f.Action == e.Action) &&
		(user == "" || strings.Contains(auditstore.Fold(e.UserName), user) || strings.Contains(auditstore.Fold(e.UserID), user))
}

// Micros returns the time range of the filter as inclusive Unix microseconds. A missing bound is
// the smallest or the largest int64. A bound between two microseconds moves into the range, because
// entries have whole microseconds.
func (f Filter) Micros() (int64, int64) {
	from, to := int64(math.MinInt64), int64(math.MaxInt64)
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

// maxText is more bytes than any category, action, user name or user id of an entry has.
const maxText = 1024

// Void reports whether no entry of any log can match: From is later than To, Action is not of
// Category, or a text cannot occur in an entry. PostgreSQL rejects some of these texts as
// parameters.
func (f Filter) Void() bool {
	from, to := f.Micros()
	if from > to || f.Category != "" && f.Action != "" && !strings.HasPrefix(f.Action, f.Category+".") {
		return true
	}

	for _, s := range [...]string{f.Category, f.Action, f.User} {
		if len(s) > maxText || !auditstore.Storable(s) {
			return true
		}
	}

	return false
}

// micros rounds down. Times far outside the years of RFC 3339 become the smallest or the largest
// int64.
func micros(t time.Time) int64 {
	const reach = 1 << 43 // seconds, about 280,000 years: within the range of an int64 of microseconds
	switch s := t.Unix(); {
	case s > reach:
		return math.MaxInt64
	case s < -reach:
		return math.MinInt64
	}

	return t.UnixMicro()
}
