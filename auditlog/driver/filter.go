package driver

import (
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/seed93082962/agenthost/auditlog"
)

// View returns the snapshot that a query uses if last is the highest id of its tenant.
func View(snapshot *uint64, last uint64) uint64 {
	if snapshot == nil {
		return last
	}
	return min(*snapshot, last)
}

// Matches reports whether an entry matches all conditions of a filter.
func Matches(f auditlog.Filter, e auditlog.Entry) bool {
	from, to := Micros(f)
	at := e.CreatedAt.UnixMicro()
	user := Fold(f.User)
	return at >= from && at <= to &&
		(f.Category == "" || f.Category == e.Category) &&
		(f.Action == "" || f.Action == e.Action) &&
		(user == "" || strings.Contains(Fold(e.UserName), user) || strings.Contains(Fold(e.UserID), user))
}

// Micros returns the time range of a filter as inclusive Unix microseconds. A missing bound is the
// smallest or the largest int64. A bound between two microseconds moves into the range, because
// entries have whole microseconds.
func Micros(f auditlog.Filter) (from, to int64) {
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

// maxText is more bytes than any category, action, user name or user id of an entry has.
const maxText = 1024

// Void reports whether no entry of any log can match: From is later than To, Action is not of
// Category, or a text cannot occur in an entry. PostgreSQL rejects some of these texts as
// parameters.
func Void(f auditlog.Filter) bool {
	from, to := Micros(f)
	if from > to || f.Category != "" && f.Action != "" && !strings.HasPrefix(f.Action, f.Category+".") {
		return true
	}
	for _, s := range [...]string{f.Category, f.Action, f.User} {
		if len(s) > maxText || !Storable(s) {
			return true
		}
	}
	return false
}

// Storable reports whether every database accepts s as text: it is UTF-8 without NUL.
func Storable(s string) bool { return utf8.ValidString(s) && !strings.Contains(s, "\x00") }

// Fold returns s with its ASCII letters in lower case. Filters compare users in this form.
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
