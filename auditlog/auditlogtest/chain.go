package auditlogtest

import (
	"encoding/hex"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/auditlog"
)

func chain(t *testing.T, s auditlog.Store) {
	name, do := tenant(), declared()
	mustAppend(t, s, logins(name, 3)...)
	mustAppend(t, s, do.rename.Record(event(name, "u", "alice"), rename{auditlog.Change[string]{From: "王", To: "<>"}}))
	noted, err := s.Head(t.Context(), name)
	require.NoError(t, err)
	mustAppend(t, s, logins(name, 3)...)
	head, err := s.Head(t.Context(), name)
	require.NoError(t, err)
	want := auditlog.Verification{OK: true, Checked: 7, HeadID: 7, HeadHash: hex.EncodeToString(head.Hash)}
	require.Equal(t, want, verified(t, s, name, noted, head))

	found := all(t, s, name, auditlog.Filter{}, nil)
	for i, e := range found {
		previous := make([]byte, 32)
		if i > 0 {
			previous = found[i-1].Hash
		}
		require.Equal(t, naiveSum(previous, e), hex.EncodeToString(e.Hash), "as the package comment of auditlog has it")
	}

	noted.Hash[5]++
	v, err := auditlog.Verify(t.Context(), s, name, noted)
	require.NoError(t, err)
	require.Equal(t, auditlog.Verification{Checked: 3, HeadID: 7, HeadHash: want.HeadHash, FirstBadID: 4}, v)
}

func prune(t *testing.T, s auditlog.Store) {
	name, do := tenant(), declared()
	bob := event(name, "b", "bob")
	for range 3 {
		mustAppend(t, s, do.login.Record(bob, auditlog.None{}), do.rename.Record(bob, rename{}))
		mustAppend(t, s, logins(name, 2)...)
	}
	before := all(t, s, name, auditlog.Filter{}, nil)
	head, err := s.Head(t.Context(), name)
	require.NoError(t, err)

	cut := before[6].CreatedAt // and whoever has the same time stays
	var gone uint64
	for gone < 12 && before[gone].CreatedAt.Before(cut) {
		gone++
	}
	n, err := s.Prune(t.Context(), name, cut)
	require.NoError(t, err)
	require.Equal(t, gone, n)
	n, err = s.Prune(t.Context(), name, cut)
	require.NoError(t, err)
	require.Zero(t, n, "there is nothing left to prune")

	checkpoint, err := s.Checkpoint(t.Context(), name)
	require.NoError(t, err)
	if gone > 0 {
		require.Equal(t, before[gone-1].Head(), checkpoint)
	}
	still, err := s.Head(t.Context(), name)
	require.NoError(t, err)
	require.Equal(t, head, still)
	require.Equal(t, before[gone:], all(t, s, name, auditlog.Filter{}, nil))
	for _, f := range []auditlog.Filter{{}, {Category: "auth"}, {Category: "user"}, {Action: "auth.login"}, {Action: "user.rename"}, {User: "BOB"},
		{User: "alice", Category: "auth"}, {From: before[0].CreatedAt}, {To: before[9].CreatedAt}, {To: before[9].CreatedAt, Category: "auth"}} {
		for _, snapshot := range []*uint64{nil, new(gone), new(gone + 2), new(uint64(1)), new(uint64(0))} {
			var want []auditlog.Entry
			for i := len(before) - 1; i >= int(gone); i-- {
				if e := before[i]; naiveFits(f, e) && (snapshot == nil || e.ID <= *snapshot) {
					want = append(want, e)
				}
			}
			p := query(t, s, auditlog.Query{TenantID: name, Filter: f, Snapshot: snapshot, Limit: 100})
			require.Equal(t, ids(want), ids(p.Items))
			require.Equal(t, uint64(len(want)), p.Total)
			if len(want) > 1 {
				deep := query(t, s, auditlog.Query{TenantID: name, Filter: f, Snapshot: snapshot, Offset: p.Total - 1, Limit: 5})
				require.Equal(t, ids(want[len(want)-1:]), ids(deep.Items))
			}
		}
	}
	require.Equal(t, 12-gone, verified(t, s, name, head).Checked)

	n, err = s.Prune(t.Context(), name, time.Now().Add(24*time.Hour))
	require.NoError(t, err)
	require.Equal(t, 12-gone, n)
	checkpoint, err = s.Checkpoint(t.Context(), name)
	require.NoError(t, err)
	require.Equal(t, head, checkpoint)
	p := query(t, s, auditlog.Query{TenantID: name, Limit: 10})
	require.Empty(t, p.Items)
	require.Zero(t, p.Total)
	require.Equal(t, uint64(12), p.Snapshot, "the view is still that of the last id")
	require.Zero(t, verified(t, s, name, head).Checked)
	_, err = auditlog.Verify(t.Context(), s, name, before[3].Head())
	require.Error(t, err, "what was noted is gone")

	mustAppend(t, s, logins(name, 1)...)
	last := all(t, s, name, auditlog.Filter{}, nil)
	require.Equal(t, []uint64{13}, ids(last))
	require.Equal(t, last[0].Sum(head.Hash), last[0].Hash, "the chain goes on")
	verified(t, s, name, head)
}
