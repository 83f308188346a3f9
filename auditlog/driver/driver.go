// Package driver contains what an implementation of [auditlog.Store] needs and its users do not:
// how a record becomes an entry, what a filter means, and which entries a retention deletes. The
// suite in auditlog/auditlogtest tests such an implementation.
package driver

import (
	"errors"
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
	return at >= from && at <= to && e.ID > f.AfterID &&
		(f.Category == "" || f.Category == e.Category) &&
		(f.Action == "" || f.Action == e.Action) &&
		(user == "" || strings.Contains(Fold(e.UserName), user) || strings.Contains(Fold(e.UserID), user))
}

// Micros returns the time range of a filter as inclusive Unix microseconds. A missing bound is the
// smallest or the largest int64. A bound between two microseconds moves into the range, because
// entries have whole microseconds.
func Micros(f auditlog.Filter) (int64, int64) {
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

// Seal completes the entry of a record as the one that follows last in the log of its tenant.
// CreatedAt becomes now in microseconds, or the time of last if the clock went back. The caller
// holds the lock of the tenant's head and has checked [auditlog.Record.Err].
func Seal(e *auditlog.Entry, last auditlog.Head, now time.Time) {
	e.ID = last.ID + 1
	e.CreatedAt = now.UTC().Truncate(time.Microsecond)
	if e.CreatedAt.Before(last.CreatedAt) {
		e.CreatedAt = last.CreatedAt.UTC()
	}

	e.Hash = e.Sum(last.Hash)
}

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
