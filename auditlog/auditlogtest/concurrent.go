package auditlogtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/auditlog"
)

const (
	writers = 8
	readers = 4
	rounds  = 15 // of each writer, with one to three entries
)

// reading is one view that a reader paged through.
type reading struct {
	filter   auditlog.Filter
	snapshot uint64
	ids      []uint64 // newest first
}

// manyWriters: during concurrent writes, the pages of a view contain each of its entries once, have
// a constant total, and contain no later entry.
func manyWriters(t *testing.T, s auditlog.Store) {
	name, do := tenant(), declared()
	var writing, reads sync.WaitGroup
	done := make(chan struct{})
	for w := range writers {
		writing.Go(func() {
			e := event(name, fmt.Sprintf("w%d", w), fmt.Sprintf("Writer %d", w))
			for round := range rounds {
				e.TargetName = fmt.Sprint(round)
				records := []auditlog.Record{
					do.login.Record(e, auditlog.None{}), do.rename.Record(e, rename{}), do.logout.Record(e, auditlog.None{}),
				}
				if err := s.Append(t.Context(), records[:1+round%3]...); err != nil {
					t.Errorf("append: %v", err)
					return
				}
			}
		})
	}
	views := []auditlog.Filter{{}, {Category: "auth"}, {Action: "user.rename"}, {User: "WRITER 3"}, {Category: "user", User: "w1"}}
	var mu sync.Mutex // guards seen
	var seen []reading
	for n := range readers {
		reads.Go(func() {
			for i := n; ; i++ {
				r, err := readThrough(t.Context(), s, name, views[i%len(views)], 7+13*n)
				if err != nil {
					t.Errorf("reader %d: %v", n, err)
					return
				}
				mu.Lock()
				seen = append(seen, r)
				mu.Unlock()
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	writing.Wait()
	close(done)
	reads.Wait()

	const total = writers * rounds * 2
	require.Equal(t, uint64(total), verified(t, s, name).Checked)
	found := all(t, s, name, auditlog.Filter{}, nil)
	for _, r := range seen {
		var want []uint64
		for _, e := range found {
			if e.ID <= r.snapshot && naiveFits(r.filter, e) {
				want = append(want, e.ID)
			}
		}
		slices.Reverse(want)
		require.Equal(t, want, nilIfNone(r.ids), "a view is the same afterwards: %+v", r.filter)
	}
	for w := range writers { // each writer's own order is kept
		round := -1
		for _, e := range all(t, s, name, auditlog.Filter{User: fmt.Sprintf("w%d", w)}, nil) {
			var n int
			_, err := fmt.Sscan(e.TargetName, &n)
			require.NoError(t, err)
			require.GreaterOrEqual(t, n, round)
			round = n
		}
		require.Equal(t, rounds-1, round)
	}
}

// readThrough pages through one view and compares the pages with each other.
func readThrough(ctx context.Context, s auditlog.Store, tenant string, f auditlog.Filter, size int) (reading, error) {
	q := auditlog.Query{TenantID: tenant, Filter: f, Limit: size}
	first, err := s.Query(ctx, q)
	if err != nil {
		return reading{}, err
	}
	r := reading{filter: f, snapshot: first.Snapshot, ids: ids(first.Items)}
	q.Snapshot = &first.Snapshot
	step := uint64(size)
	for q.Offset = step; q.Offset < first.Total+step; q.Offset += step {
		p, err := s.Query(ctx, q)
		if err != nil {
			return r, err
		}
		if p.Total != first.Total || p.Snapshot != first.Snapshot {
			return r, fmt.Errorf("total %d of view %d became %d of view %d", first.Total, first.Snapshot, p.Total, p.Snapshot)
		}
		r.ids = append(r.ids, ids(p.Items)...)
	}
	if uint64(len(r.ids)) != first.Total {
		return r, fmt.Errorf("%d entries, and a total of %d", len(r.ids), first.Total)
	}
	if f == (auditlog.Filter{}) && first.Total != first.Snapshot {
		return r, fmt.Errorf("view %d has %d entries", first.Snapshot, first.Total)
	}
	for i, id := range r.ids {
		if id > first.Snapshot || i > 0 && id >= r.ids[i-1] {
			return r, fmt.Errorf("view %d: entry %d is out of order, or not of it", first.Snapshot, id)
		}
	}
	return r, nil
}

// manyPruners: entries are pruned while others are appended, read and verified.
func manyPruners(t *testing.T, s auditlog.Store) {
	name := tenant()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var writing, others sync.WaitGroup
	for range writers {
		writing.Go(func() {
			for range rounds {
				if err := s.Append(t.Context(), logins(name, 2)...); err != nil {
					t.Errorf("append: %v", err)
					return
				}
			}
		})
	}
	// loop repeats until all is written.
	loop := func(what string, do func() error) {
		others.Go(func() {
			for ctx.Err() == nil {
				if err := do(); err != nil && !errors.Is(err, context.Canceled) {
					t.Errorf("%s: %v", what, err)
					return
				}
			}
		})
	}
	for range 2 {
		loop("prune", func() error {
			p, err := s.Query(ctx, auditlog.Query{TenantID: name, Offset: 50, Limit: 1})
			if err != nil || len(p.Items) == 0 {
				return err
			}
			_, err = s.Prune(ctx, name, time.Since(p.Items[0].CreatedAt), declared().prune)
			return err
		})
	}
	loop("verify", func() error {
		v, err := auditlog.Verify(ctx, s, name)
		if err == nil && !v.OK {
			err = fmt.Errorf("the chain broke: %+v", v)
		}
		return err
	})
	loop("query", func() error {
		p, err := s.Query(ctx, auditlog.Query{TenantID: name, Filter: auditlog.Filter{Category: "auth"}, Limit: 1 << 20})
		if err == nil && uint64(len(p.Items)) != p.Total {
			err = fmt.Errorf("%d entries, and a total of %d", len(p.Items), p.Total)
		}
		for i, e := range p.Items {
			if e.ID != p.Snapshot-uint64(i) {
				return fmt.Errorf("entry %d at %d of view %d", e.ID, i, p.Snapshot)
			}
		}
		return err
	})
	writing.Wait()
	cancel()
	others.Wait()

	head, err := s.Head(t.Context(), name)
	require.NoError(t, err)
	require.GreaterOrEqual(t, head.ID, uint64(writers*rounds*2), "and an entry for each pruning")
	checkpoint, err := s.Checkpoint(t.Context(), name)
	require.NoError(t, err)
	require.Equal(t, head.ID-checkpoint.ID, verified(t, s, name).Checked)
	require.Equal(t, head.ID-checkpoint.ID, pruned(t, s, name, 0))
	require.Equal(t, uint64(1), verified(t, s, name).Checked, "the entry of the last pruning")
}
