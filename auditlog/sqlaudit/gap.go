package sqlaudit

import (
	"errors"
	"slices"
)

// errPruned tells that entries were pruned while others were counted, so that the count is of no one moment.
var errPruned = errors.New("entries were pruned while others were counted")

// gap tells that a page lacks entries which were counted, or names of some.
type gap struct {
	floor uint64 // id of the last pruned entry, read before they were counted
	id    uint64 // of an entry that is missing; 0 where none is known
}

// again tells that there was a gap before and nothing was pruned since: this was lost otherwise.
func (g *gap) again(before *gap) bool { return before != nil && before.floor == g.floor }

// forget is for when a count was wrong: what it was made of may have been read while entries were pruned.
func (r *ranks) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.views = nil
}

// dense tells whether n rows of a source, newest first, are those behind the offset. All entries, and those of one key, have
// positions without a gap; where some are missing, a page would show others in their place.
func dense(from source, offset, n int64, rows []row) (missing uint64, ok bool) {
	switch from := from.(type) {
	case span:
		for i := range n {
			if id := unsigned(from.hi - offset - i); i >= int64(len(rows)) || rows[i].ID != id {
				return id, false
			}
		}
	case *sequence:
		j := slices.Index([]string{"category", "action", "actor"}, from.column)
		for i := range min(n, int64(len(rows))) {
			if rows[i].pos[j] != from.last-offset-i {
				return 0, false
			}
		}
	}
	return 0, int64(len(rows)) == n
}
