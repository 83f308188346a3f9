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
	rounds  = 15 // of each writer
)

// write appends entries of the tenant from many goroutines. The others run until all is written.
func write(t *testing.T, s auditlog.Store, tenant string, others ...func(context.Context) error) {
	t.Helper()
	ctx, written := context.WithCancel(t.Context())
	defer written()
	do := declared()
	var writing, running sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			e := event(tenant, fmt.Sprintf("w%d", w), fmt.Sprintf("Writer %d", w))
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

	for _, other := range others {
		running.Go(func() {
			for ctx.Err() == nil {
				if err := other(ctx); err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
					return
				}
			}
		})
	}

	writing.Wait()
	written()
	running.Wait()
}

// manyWriters: during concurrent writes, the pages of a view have its entries and its total, which
// do not change afterwards.
func manyWriters(t *testing.T, s auditlog.Store) {
	type view struct {
		query auditlog.Query
		ids   []uint64 // newest first
	}
	name := tenant()
	var mu sync.Mutex // guards seen
	var seen []view
	var readers []func(context.Context) error
	for i, f := range []auditlog.Filter{{}, {Category: "auth"}, {Action: "user.rename"}, {User: "WRITER 3"}, {Category: "user", User: "w1"}} {
		readers = append(readers, func(ctx context.Context) error {
			v := view{query: auditlog.Query{TenantID: name, Filter: f, Limit: 7 + 13*i}}
			first, err := s.Query(ctx, v.query)
			if err != nil {
				return err
			}

			v.query.Snapshot = &first.Snapshot
			for ; v.query.Offset < first.Total; v.query.Offset += uint64(v.query.Limit) {
				p, err := s.Query(ctx, v.query)
				if err != nil {
					return err
				}

				if p.Total != first.Total || p.Snapshot != first.Snapshot {
					return fmt.Errorf("total %d of view %d became %d of view %d", first.Total, first.Snapshot, p.Total, p.Snapshot)
				}

				v.ids = append(v.ids, ids(p.Items)...)
			}

			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, v)
			return nil
		})
	}

	write(t, s, name, readers...)

	const total = writers * rounds * 2
	require.Equal(t, uint64(total), verified(t, s, name).Checked)
	log := all(t, s, name, auditlog.Filter{}, nil)
	for _, v := range seen {
		var want []uint64
		for _, e := range slices.Backward(log) {
			if e.ID <= *v.query.Snapshot && naiveFits(v.query.Filter, e) {
				want = append(want, e.ID)
			}
		}

		require.Equal(t, want, v.ids, "%+v", v.query.Filter)
	}

	for w := range writers { // the order of each writer
		var got []string
		for _, e := range all(t, s, name, auditlog.Filter{User: fmt.Sprintf("w%d", w)}, nil) {
			got = append(got, e.TargetName)
		}

		var want []string
		for round := range rounds {
			want = append(want, slices.Repeat([]string{fmt.Sprint(round)}, 1+round%3)...)
		}

		require.Equal(t, want, got)
	}
}

// manyPruners: entries are pruned while others are appended, read and verified.
func manyPruners(t *testing.T, s auditlog.Store) {
	name := tenant()
	prune := func(ctx context.Context) error {
		p, err := s.Query(ctx, auditlog.Query{TenantID: name, Offset: 50, Limit: 1})
		if err != nil || len(p.Items) == 0 {
			return err
		}

		_, err = s.Prune(ctx, name, time.Since(p.Items[0].CreatedAt), declared().prune)
		return err
	}
	verify := func(ctx context.Context) error {
		v, err := auditlog.Verify(ctx, s, name)
		if err == nil && !v.OK {
			return fmt.Errorf("the chain broke: %+v", v)
		}

		return err
	}
	read := func(ctx context.Context) error {
		p, err := s.Query(ctx, auditlog.Query{TenantID: name, Limit: 1 << 20})
		if err == nil && uint64(len(p.Items)) != p.Total {
			return fmt.Errorf("%d entries, and a total of %d", len(p.Items), p.Total)
		}

		for i, e := range p.Items {
			if e.ID != p.Snapshot-uint64(i) {
				return fmt.Errorf("entry %d at %d of view %d", e.ID, i, p.Snapshot)
			}
		}

		return err
	}
	write(t, s, name, prune, prune, verify, read)

	head, err := s.Head(t.Context(), name)
	require.NoError(t, err)
	require.GreaterOrEqual(t, head.ID, uint64(writers*rounds*2), "and an entry for each pruning")
	checkpoint, err := s.Checkpoint(t.Context(), name)
	require.NoError(t, err)
	require.Equal(t, head.ID-checkpoint.ID, verified(t, s, name).Checked)
	require.Equal(t, head.ID-checkpoint.ID, pruned(t, s, name, 0))
	require.Equal(t, uint64(1), verified(t, s, name).Checked, "the entry of the last pruning")
}
