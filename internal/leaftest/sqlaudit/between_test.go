package sqlaudit_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/auditlog"
)

// atStep calls do before the reader's next query but n. The returned function reports whether there
// were as many.
func (w *twin) atStep(n int, do func()) (done func() bool) {
	left := n
	w.queries.each(func() {
		if left--; left == -1 {
			do()
		}
	})
	return func() bool {
		w.queries.each(nil)
		w.queries.take()
		return left < 0
	}
}

var twinFilters = []auditlog.Filter{
	{},
	{User: "user00"},
	{Action: "auth.login", To: second(6)},
	{User: "user00", Category: "user"},
	{From: second(1), To: second(5)},
	{User: "user001", Action: "auth.login"},
	{From: second(3), Category: "user"},
	{User: "id-1", From: second(1), To: second(6)},
	{User: "id-90"},
	{User: "id-91"},
}

// Entries are appended and pruned between two statements of a query. Its result is the one before
// or after that, or the old view of the remaining entries.
func TestQueryWhilePruned(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, url string) {
		next := twins(t, url)
		for i, f := range twinFilters {
			if i/2%2 == 0 != strings.HasPrefix(url, "postgres") { // both engines execute the same statements
				continue
			}
			t.Run(fmt.Sprintf("%+v", f), func(t *testing.T) {
				for _, q := range []auditlog.Query{
					{}, {Limit: 1000}, {Snapshot: new(uint64(50)), Limit: 1000},
					{Offset: 260, Limit: 30},
				} {
					if q.Limit == 0 && f != (auditlog.Filter{}) {
						continue // a first page of the default size is a part of the longer one
					}
					size := 8
					if q.Offset > 20 {
						if f.User != "user00" && f.User != "id-1" || f.Category != "" {
							continue
						}
						size = 50
					}
					for step, more := 0, true; more; step++ {
						w := next(t, size)
						q.TenantID, q.Filter = w.tenant, f
						before, last := w.answer(t, w.memory, q), q
						view := uint64(twinSeconds * size)
						done := w.atStep(step, func() {
							w.append(t, twinSeconds, 5)
							w.prune(t, second(3))
						})
						got := w.answer(t, w.reader, q)
						if more = done(); !more {
							w.prune(t, second(3))
						}
						after := w.answer(t, w.memory, q)
						if last.Snapshot == nil {
							last.Snapshot = &view
						}
						require.Contains(t, []string{before, after, w.answer(t, w.memory, last)}, got, "%+v, pruned before statement %d", q, step)
						require.Equal(t, after, w.answer(t, w.reader, q), "asked again: %+v, pruned before statement %d", q, step)
					}
				}
			})
		}
	})
}

// Entries that are pruned while they are read are missing or unchanged; all others are present.
func TestEntriesWhilePruned(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, url string) {
		next := twins(t, url)
		for i := 0; i < len(twinFilters); i += 2 {
			f := twinFilters[i]
			for step, more := 0, true; more; step++ {
				w := next(t, 12)
				var snapshot *uint64
				if f.User != "" {
					snapshot = new(uint64(90))
				}
				before := w.entries(t, w.memory, f, snapshot)
				done := w.atStep(step, func() { w.prune(t, second(3)) })
				got := beforePruning(w.entries(t, w.reader, f, snapshot))
				if more = done(); !more {
					w.prune(t, second(3))
				}
				after := beforePruning(w.entries(t, w.memory, f, snapshot))
				require.GreaterOrEqual(t, len(got), len(after), "%+v, pruned before statement %d", f, step)
				require.Equal(t, after, got[len(got)-len(after):], "%+v, pruned before statement %d", f, step)
				require.Subset(t, before, got, "%+v, pruned before statement %d", f, step)
			}
		}
	})
}

// beforePruning leaves out the entry of a pruning, which is the last one.
func beforePruning(entries []string) []string {
	if n := len(entries); n > 0 && strings.Contains(entries[n-1], "auth.prune_audit") {
		return entries[:n-1]
	}
	return entries
}

// Two concurrent prunings delete all entries that either of them had to delete.
func TestPruneWhilePruned(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, url string) {
		next := twins(t, url)
		for _, until := range []int{1, 2, 3} {
			for step, more := 0, true; more; step++ {
				w := next(t, 12)
				done := w.atStep(step, func() { w.prune(t, second(until)) })
				_, err := w.reader.Prune(t.Context(), w.tenant, retention(second(3)), pruneAudit)
				require.NoError(t, err)
				more = done()
				_, err = w.memory.Prune(t.Context(), w.tenant, retention(second(3)), pruneAudit)
				require.NoError(t, err)
				past := auditlog.Filter{To: second(twinSeconds).Add(-1)} // without the entries of the prunings
				require.Equal(t, w.entries(t, w.memory, past, nil), w.entries(t, w.writer, past, nil),
					"pruned to second %d before statement %d", until, step)
			}
		}
	})
}

// A pruning during a verification is not reported as damage.
func TestVerifyWhilePruned(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, url string) {
		next := twins(t, url)
		for _, until := range []int{1, twinSeconds} {
			for step, more := 0, true; more; step++ {
				w := next(t, 12)
				done := w.atStep(step, func() { w.prune(t, second(until)) })
				v, err := auditlog.Verify(t.Context(), w.reader, w.tenant)
				require.NoError(t, err)
				require.True(t, v.OK, "pruned to second %d before statement %d: %+v", until, step, v)
				more = done()
			}
		}
	})
}
