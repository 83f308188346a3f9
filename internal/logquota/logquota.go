// Package logquota bounds what a run writes to the log.
package logquota

import "sync/atomic"

// Quota is the number of bytes that the tools of a run may still write to the log. It is safe
// for concurrent use.
type Quota struct{ left atomic.Int64 }

// New returns a quota of that many bytes.
func New(bytes int64) *Quota {
	q := new(Quota)
	q.left.Store(bytes)
	return q
}

// Take reports whether a line of that many bytes may be written. After the first line that may not,
// none may.
func (q *Quota) Take(bytes int) bool {
	return q == nil || q.left.Load() >= 0 && q.left.Add(-int64(bytes)) >= 0
}
