package auditlogtest

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/auditlog"
)

// requirePruning requires that e records the pruning of these entries and follows last.
func requirePruning(t require.TestingT, deleted []auditlog.Entry, last auditlog.Head, e auditlog.Entry) {
	require.Equal(t, last.ID+1, e.ID)
	require.Equal(t, e.Sum(last.Hash), e.Hash)
	require.Equal(t, "auth.prune_audit", e.Action)
	require.Equal(t, auditlog.Success, e.Status)
	require.False(t, e.CreatedAt.Before(last.CreatedAt))
	var p auditlog.Pruning
	require.NoError(t, json.Unmarshal(e.Detail, &p))
	require.EqualValues(t, len(deleted), p.Entries)
	require.Equal(t, deleted[len(deleted)-1].Head(), p.Checkpoint)
	require.True(t, p.Checkpoint.CreatedAt.Before(p.Before))
}

func prune(t *testing.T, s auditlog.Store, c *clock) {
	name, do := tenant(), declared()
	bob := event(name, "b", "bob")
	for range 3 {
		mustAppend(t, s, do.login.Record(bob, auditlog.None{}), do.rename.Record(bob, rename{}))
		c.move(time.Second)
		mustAppend(t, s, logins(name, 2)...)
		c.move(time.Second)
	}
	before := all(t, s, name, auditlog.Filter{}, nil)
	head, err := s.Head(t.Context(), name)
	require.NoError(t, err)

	const gone = 6
	retention := c.Now().Sub(before[gone].CreatedAt) // which stays, with the next one of the same time
	require.Equal(t, uint64(gone), pruned(t, s, name, retention))
	require.Zero(t, pruned(t, s, name, retention), "no entry is older")
	checkpoint, err := s.Checkpoint(t.Context(), name)
	require.NoError(t, err)
	require.Equal(t, before[gone-1].Head(), checkpoint)
	left := all(t, s, name, auditlog.Filter{}, nil)
	require.Equal(t, before[gone:], left[:12-gone])
	require.Len(t, left, 12-gone+1)
	requirePruning(t, before[:gone], head, left[12-gone])
	requirePages(t, s, name, left)

	v := verified(t, s, name, head)
	require.Equal(t, uint64(7), v.Checked)
	require.Equal(t, uint64(7), v.FirstID)
	require.Equal(t, checkpoint, *v.Checkpoint)
	v, err = auditlog.Verify(t.Context(), s, name, before[3].Head())
	require.NoError(t, err)
	require.False(t, v.OK, "the given head is gone")
	require.Equal(t, "head_pruned", v.Reason)

	c.move(time.Hour)
	require.Equal(t, uint64(7), pruned(t, s, name, 0))
	checkpoint, err = s.Checkpoint(t.Context(), name)
	require.NoError(t, err)
	require.Equal(t, left[6].Head(), checkpoint)
	p := query(t, s, auditlog.Query{TenantID: name, Limit: 10})
	require.Equal(t, uint64(1), p.Total)
	requirePruning(t, left, checkpoint, p.Items[0])
	require.Equal(t, uint64(14), p.Snapshot)
	require.Zero(t, query(t, s, auditlog.Query{TenantID: name, Snapshot: &checkpoint.ID, Limit: 10}).Total)
	require.Equal(t, uint64(1), verified(t, s, name, checkpoint).Checked)

	mustAppend(t, s, logins(name, 1)...)
	last := all(t, s, name, auditlog.Filter{}, nil)
	require.Equal(t, []uint64{14, 15}, ids(last))
	verified(t, s, name, checkpoint, last[0].Head())
}

// requirePages compares pages of all kinds with the entries of a log.
func requirePages(t *testing.T, s auditlog.Store, name string, log []auditlog.Entry) {
	t.Helper()
	first := log[0].ID
	for _, f := range []auditlog.Filter{
		{}, {Category: "auth"}, {Category: "user"}, {Action: "auth.login"}, {Action: "user.rename"}, {User: "BOB"},
		{User: "alice", Category: "auth"}, {From: log[0].CreatedAt}, {To: log[3].CreatedAt}, {To: log[3].CreatedAt, Category: "auth"},
	} {
		for _, snapshot := range []*uint64{nil, new(first - 1), new(first + 1), new(uint64(1)), new(uint64(0))} {
			var want []auditlog.Entry
			for _, e := range slices.Backward(log) {
				if naiveFits(f, e) && (snapshot == nil || e.ID <= *snapshot) {
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
}

func pruneAtBorder(t *testing.T, s auditlog.Store, c *clock) {
	name := tenant()
	begin := c.Now().Truncate(time.Microsecond)
	for range 4 {
		mustAppend(t, s, logins(name, 2)...)
		c.move(time.Microsecond)
	}
	c.move(time.Hour)
	for _, row := range []struct {
		before time.Duration // after the first
		gone   uint64
	}{
		{-time.Hour, 0}, {0, 0}, {1, 2}, {1, 0}, {time.Microsecond, 0}, {time.Microsecond + 1, 2}, {3 * time.Microsecond, 2},
		{time.Minute, 2}, {2 * time.Minute, 0},
	} {
		require.Equal(t, row.gone, pruned(t, s, name, c.Now().Sub(begin.Add(row.before))), row.before)
		verified(t, s, name)
	}
	c.move(-30 * time.Minute)
	mustAppend(t, s, logins(name, 1)...)
	entries := all(t, s, name, auditlog.Filter{}, nil)
	last := entries[len(entries)-1]
	require.Equal(t, uint64(8+4+1), last.ID, "each of the four prunings is an entry")
	require.Equal(t, entries[len(entries)-2].CreatedAt, last.CreatedAt, "the time does not decrease")
	verified(t, s, name)

	c.move(2 * time.Hour)
	_, err := s.Prune(t.Context(), name, -1, declared().prune)
	require.Error(t, err, "entries of the future")
	_, err = s.Prune(t.Context(), name, 0, auditlog.Action[auditlog.Pruning]{})
	require.Error(t, err, "the pruning cannot be recorded")
	require.Equal(t, entries, all(t, s, name, auditlog.Filter{}, nil), "nothing was deleted")
}

// Entries that a clock in the future dated are not older than the retention when the clock is right
// again.
func pruneBehind(t *testing.T, s auditlog.Store, c *clock) {
	name := tenant()
	mustAppend(t, s, logins(name, 2)...)
	c.move(48 * time.Hour)
	mustAppend(t, s, logins(name, 2)...)
	c.move(-47 * time.Hour)
	require.Equal(t, uint64(2), pruned(t, s, name, 0))
	require.Zero(t, pruned(t, s, name, 0))
	require.Equal(t, []uint64{3, 4, 5}, ids(all(t, s, name, auditlog.Filter{}, nil)))
	verified(t, s, name)
}
