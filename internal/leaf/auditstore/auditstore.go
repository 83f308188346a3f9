// Package auditstore has the rules that every store of an audit log follows: which texts it
// accepts, how users compare, and what a snapshot and a retention mean.
package auditstore

import (
	"errors"
	"strings"
	"time"
	"unicode/utf8"
)

// View returns the snapshot that a query uses if last is the highest id of its tenant.
func View(snapshot *uint64, last uint64) uint64 {
	if snapshot == nil {
		return last
	}

	return min(*snapshot, last)
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

// Cutoff returns the time before which entries are older than the retention.
func Cutoff(retention time.Duration, now time.Time) (time.Time, error) {
	if retention < 0 {
		return time.Time{}, errors.New("the retention is negative")
	}

	return now.UTC().Add(-retention), nil
}
