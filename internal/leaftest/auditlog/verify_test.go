package auditlog_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/auditlog/memaudit"
)

var errBroken = errors.New("disk on fire")

// tampered is a store whose entries or head were changed by other means than the store.
type tampered struct {
	auditlog.Store
	change func([]auditlog.Entry) []auditlog.Entry // what is read
	head   func(*auditlog.Head)
	fail   int          // errBroken instead of this entry and all later ones; 0: none
	last   error        // after all entries
	count  atomic.Int32 // how often the log was read
}

func (s *tampered) Entries(ctx context.Context, tenant string, f auditlog.Filter, snapshot *uint64) iter.Seq2[auditlog.Entry, error] {
	s.count.Add(1)
	return func(yield func(auditlog.Entry, error) bool) {
		var all []auditlog.Entry
		for e, err := range s.Store.Entries(ctx, tenant, f, snapshot) {
			if err != nil {
				yield(e, err)
				return
			}
			all = append(all, e)
		}
		if s.change != nil {
			all = s.change(all)
		}
		for i, e := range all {
			if s.fail > 0 && i+1 >= s.fail {
				yield(auditlog.Entry{}, errBroken)
				return
			}
			if !yield(e, nil) {
				return
			}
		}
		if s.last != nil {
			yield(auditlog.Entry{}, s.last)
		}
	}
}

func (s *tampered) Head(ctx context.Context, tenant string) (auditlog.Head, error) {
	h, err := s.Store.Head(ctx, tenant)
	if s.head != nil {
		s.head(&h)
	}
	return h, err
}

var (
	login      = auditlog.Define[auditlog.None]("auth.login")
	pruneAudit = auditlog.Define[auditlog.Pruning]("auth.prune_audit")
)

func filled(t testing.TB, n int) *memaudit.Store {
	t.Helper()
	s := new(memaudit.Store)
	for range n {
		require.NoError(t, s.Append(t.Context(), login.Record(auditlog.Event{TenantID: "t", UserName: "alice"}, auditlog.None{})))
	}
	return s
}

// again computes the hashes again from an entry on, as an attacker could.
func again(all []auditlog.Entry, from int) []auditlog.Entry {
	for i := from; i < len(all); i++ {
		all[i].Hash = all[i].Sum(all[i-1].Hash)
	}
	return all
}

func TestVerifyReportsChanges(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name   string
		change func([]auditlog.Entry) []auditlog.Entry
		head   func(*auditlog.Head)
		bad    uint64
	}{
		{name: "nothing"},
		{name: "a text was changed", bad: 4, change: func(all []auditlog.Entry) []auditlog.Entry {
			all[3].UserName = "bob"
			return all
		}},
		{name: "a text and its hash were changed", bad: 5, change: func(all []auditlog.Entry) []auditlog.Entry {
			all[3].UserName = "bob"
			all[3].Hash = all[3].Sum(all[2].Hash)
			return all
		}},
		{name: "the last entry and its hash were changed", bad: 9, change: func(all []auditlog.Entry) []auditlog.Entry {
			all[8].UserName = "bob"
			return again(all, 8)
		}},
		{name: "the chain was made anew, but for the head", bad: 9, change: func(all []auditlog.Entry) []auditlog.Entry {
			all[3].UserName = "bob"
			return again(all, 3)
		}},
		{name: "the first entry was taken away", bad: 1, change: func(all []auditlog.Entry) []auditlog.Entry { return all[1:] }},
		{name: "an entry was taken away", bad: 4, change: func(all []auditlog.Entry) []auditlog.Entry { return slices.Delete(all, 3, 4) }},
		{name: "the last entry was taken away", bad: 9, change: func(all []auditlog.Entry) []auditlog.Entry { return all[:8] }},
		{name: "all entries were taken away", bad: 1, change: func([]auditlog.Entry) []auditlog.Entry { return nil }},
		{name: "two were exchanged", bad: 4, change: func(all []auditlog.Entry) []auditlog.Entry {
			all[3], all[4] = all[4], all[3]
			return all
		}},
		{name: "one was doubled", bad: 5, change: func(all []auditlog.Entry) []auditlog.Entry { return slices.Insert(all, 4, all[3]) }},
		{name: "time goes back", bad: 5, change: func(all []auditlog.Entry) []auditlog.Entry {
			all[4].CreatedAt = all[4].CreatedAt.Add(-time.Hour)
			return again(all, 4)
		}},
		{name: "one was put above the head", bad: 10, change: func(all []auditlog.Entry) []auditlog.Entry {
			e := all[8]
			e.ID = 10
			return again(append(all, e), 9)
		}},
		{name: "one was put far above the head", bad: 10, change: func(all []auditlog.Entry) []auditlog.Entry {
			e := all[8]
			e.ID = 1 << 62
			return append(all, e)
		}},
		{name: "one was put before the first", bad: 1, change: func(all []auditlog.Entry) []auditlog.Entry {
			return slices.Insert(all, 0, auditlog.Entry{TenantID: "t"})
		}},
		{name: "the last was doubled", bad: 10, change: func(all []auditlog.Entry) []auditlog.Entry { return append(all, all[8]) }},
		{name: "the time of the head was changed", bad: 9, head: func(h *auditlog.Head) { h.CreatedAt = h.CreatedAt.Add(time.Hour) }},
		{name: "the hash of the head was changed", bad: 9, head: func(h *auditlog.Head) { h.Hash[0]++ }},
		{name: "the head was put back", bad: 8, head: func(h *auditlog.Head) { h.ID = 8 }},
		{name: "the head was put forward", bad: 10, head: func(h *auditlog.Head) { h.ID = 10 }},
		{name: "the head was taken away", bad: 1, head: func(h *auditlog.Head) { h.ID = 0 }},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			s := &tampered{Store: filled(t, 9), change: row.change, head: row.head}
			v, err := auditlog.Verify(t.Context(), s, "t")
			require.NoError(t, err)
			require.Equal(t, row.bad, v.FirstBadID)
			require.Equal(t, row.bad == 0, v.OK)
			require.LessOrEqual(t, s.count.Load(), int32(1))
			if row.bad > 0 {
				require.Less(t, v.Checked, max(row.bad, 1))
			} else {
				require.Equal(t, uint64(9), v.Checked)
			}
		})
	}
}

func TestVerifyWithRecordedHeads(t *testing.T) {
	t.Parallel()
	s := filled(t, 9)
	var heads []auditlog.Head
	for e, err := range s.Entries(t.Context(), "t", auditlog.Filter{}, nil) {
		require.NoError(t, err)
		heads = append(heads, e.Head())
	}
	other := heads[4]
	other.Hash = make([]byte, 32)
	written := &tampered{Store: s} // whose head fits the chain made anew
	written.change = func(all []auditlog.Entry) []auditlog.Entry {
		all[3].UserName = "bob"
		return again(all, 3)
	}
	written.head = func(h *auditlog.Head) {
		for e, err := range written.Entries(context.Background(), "t", auditlog.Filter{}, nil) {
			if *h = e.Head(); err != nil {
				panic(err)
			}
		}
	}
	for _, row := range []struct {
		name  string
		store auditlog.Store
		noted []auditlog.Head
		bad   uint64
	}{
		{name: "all of them", store: s, noted: append(heads, auditlog.Head{})},
		{name: "a longer log", store: s, noted: []auditlog.Head{heads[1], {ID: 12, Hash: make([]byte, 32)}}, bad: 10},
		{name: "another hash", store: s, noted: []auditlog.Head{heads[1], other, heads[8]}, bad: 5},
		{name: "two hashes", store: s, noted: []auditlog.Head{heads[4], other}, bad: 5},
		{name: "a log made anew, with nothing noted", store: written},
		{name: "a log made anew, with one noted before", store: written, noted: heads[:3]},
		{name: "a log made anew, with one noted after", store: written, noted: heads[6:7], bad: 7},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			v, err := auditlog.Verify(t.Context(), row.store, "t", row.noted...)
			require.NoError(t, err)
			require.Equal(t, row.bad, v.FirstBadID)
			require.Equal(t, row.bad == 0, v.OK)
		})
	}
}

func TestVerifyReturnsErrorsOfTheStore(t *testing.T) {
	t.Parallel()
	v, err := auditlog.Verify(t.Context(), &tampered{Store: filled(t, 3), fail: 2}, "t")
	require.ErrorIs(t, err, errBroken)
	require.Zero(t, v)
}

func TestVerifyReportsDamageOfTheStore(t *testing.T) {
	t.Parallel()
	long := auditlog.Head{ID: 12, Hash: make([]byte, 32)}
	for _, row := range []struct {
		name         string
		id           uint64
		change       func([]auditlog.Entry) []auditlog.Entry
		noted        []auditlog.Head
		checked, bad uint64
	}{
		{name: "above the head", id: 10, checked: 9, bad: 10},
		{name: "an entry", id: 4, checked: 3, bad: 4},
		{name: "before the first", id: 1, checked: 0, bad: 1},
		{name: "somewhere", checked: 9, bad: 10},
		{name: "an entry, and the log was longer once", id: 4, noted: []auditlog.Head{long}, checked: 3, bad: 4},
		{name: "above the head, and the log was longer once", id: 20, noted: []auditlog.Head{long}, checked: 9, bad: 10},
		{name: "somewhere, where entries are missing", checked: 8, bad: 9,
			change: func(all []auditlog.Entry) []auditlog.Entry { return all[:8] }},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			s := &tampered{Store: filled(t, 9), change: row.change, last: fmt.Errorf("read: %w", &auditlog.DamagedError{TenantID: "t", ID: row.id})}
			v, err := auditlog.Verify(t.Context(), s, "t", row.noted...)
			require.NoError(t, err)
			require.False(t, v.OK)
			require.Equal(t, row.checked, v.Checked)
			require.Equal(t, row.bad, v.FirstBadID)
		})
	}
}

func TestDamagedErrorText(t *testing.T) {
	t.Parallel()
	require.EqualError(t, &auditlog.DamagedError{TenantID: "t", ID: 5}, `the audit log of "t" is damaged at entry 5: verify it`)
	require.EqualError(t, &auditlog.DamagedError{TenantID: "t"}, `the audit log of "t" is damaged: verify it`)
}

// Entries that are appended during the verification are not reported as added.
func TestVerifyWhileEntriesAreAppended(t *testing.T) {
	t.Parallel()
	memory := filled(t, 9)
	s := &tampered{Store: memory}
	s.change = func([]auditlog.Entry) (all []auditlog.Entry) {
		for range 3 {
			if err := memory.Append(context.Background(), login.Record(auditlog.Event{TenantID: "t"}, auditlog.None{})); err != nil {
				panic(err)
			}
		}
		for e, err := range memory.Entries(context.Background(), "t", auditlog.Filter{}, nil) {
			if err != nil {
				panic(err)
			}
			all = append(all, e)
		}
		return all
	}
	v, err := auditlog.Verify(t.Context(), s, "t")
	require.NoError(t, err)
	require.True(t, v.OK, "%+v", v)
	require.Equal(t, uint64(9), v.Checked)
	require.Equal(t, uint64(9), v.HeadID)
}

// Entries that are pruned during the verification are not reported as missing.
func TestVerifyWhileEntriesArePruned(t *testing.T) {
	t.Parallel()
	memory := filled(t, 9)
	s := &tampered{Store: memory}
	s.change = func(all []auditlog.Entry) []auditlog.Entry {
		if s.count.Load() > 1 {
			return all
		}
		_, err := memory.Prune(context.Background(), "t", 0, pruneAudit)
		if err != nil {
			panic(err)
		}
		return nil
	}
	v, err := auditlog.Verify(t.Context(), s, "t")
	require.NoError(t, err)
	require.True(t, v.OK, "%+v", v)
	require.Equal(t, uint64(1), v.Checked, "the entry of the pruning")
	require.Equal(t, uint64(10), v.HeadID)

	v, err = auditlog.Verify(t.Context(), memory, "t", auditlog.Head{})
	require.NoError(t, err)
	require.True(t, v.OK, "the zero head is ignored")
}
