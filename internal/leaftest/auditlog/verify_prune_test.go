package auditlog_test

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"iter"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/auditlog/memaudit"
)

// beheaded is a store that contains all entries of a log after the checkpoint, whether they were
// pruned or not.
type beheaded struct {
	auditlog.Store
	all        []auditlog.Entry
	checkpoint auditlog.Head
}

func (s beheaded) Checkpoint(context.Context, string) (auditlog.Head, error) {
	return s.checkpoint, nil
}

func (s beheaded) Entries(context.Context, string, auditlog.Filter, *uint64) iter.Seq2[auditlog.Entry, error] {
	return func(yield func(auditlog.Entry, error) bool) {
		for _, e := range s.all {
			if e.ID > s.checkpoint.ID && !yield(e, nil) {
				return
			}
		}
	}
}

// prunedLog returns a log with the entries 5 to 10, of which 8 records the pruning of 1 to 4, and
// all ten entries.
func prunedLog(t *testing.T) (*memaudit.Store, []auditlog.Entry) {
	t.Helper()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s := &memaudit.Store{Now: func() time.Time { return now }}
	write := func() {
		now = now.Add(time.Hour)
		require.NoError(t, s.Append(t.Context(), login.Record(auditlog.Event{TenantID: "t"}, auditlog.None{})))
	}
	for range 7 {
		write()
	}
	all := entriesOf(t, s)
	n, err := s.Prune(t.Context(), "t", 150*time.Minute, pruneAudit)
	require.NoError(t, err)
	require.Equal(t, uint64(4), n)
	write()
	write()
	return s, append(all, entriesOf(t, s)[3:]...)
}

func entriesOf(t *testing.T, s auditlog.Store) (all []auditlog.Entry) {
	t.Helper()
	for e, err := range s.Entries(t.Context(), "t", auditlog.Filter{}, nil) {
		require.NoError(t, err)
		all = append(all, e)
	}
	return all
}

func TestVerifyFindsDeletionOfTheOldestEntries(t *testing.T) {
	t.Parallel()
	whole := filled(t, 9)
	all := entriesOf(t, whole)
	pruned, prunedAll := prunedLog(t)
	forged := prunedAll[3].Head()
	forged.Hash = make([]byte, 32)
	for _, row := range []struct {
		name   string
		store  auditlog.Store
		bad    uint64
		reason string
	}{
		{"nothing was deleted", whole, 0, ""},
		{"a pruning was recorded", pruned, 0, ""},
		{"the recorded pruning was interrupted", beheaded{pruned, prunedAll, prunedAll[2].Head()}, 0, ""},
		{"the recorded pruning deleted nothing yet", beheaded{pruned, prunedAll, auditlog.Head{}}, 0, ""},
		{"without any pruning", beheaded{whole, all, all[2].Head()}, 1, "pruning_unexplained"},
		{"all but the last", beheaded{whole, all, all[7].Head()}, 1, "pruning_unexplained"},
		{"all", beheaded{whole, all, all[8].Head()}, 1, "pruning_unexplained"},
		{"more than was pruned", beheaded{pruned, prunedAll, prunedAll[5].Head()}, 5, "pruning_unexplained"},
		{"the entry of the pruning too", beheaded{pruned, prunedAll, prunedAll[8].Head()}, 1, "pruning_unexplained"},
		{"the checkpoint has another hash", beheaded{pruned, prunedAll, forged}, 5, "entry_changed"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			v, err := auditlog.Verify(t.Context(), row.store, "t")
			require.NoError(t, err)
			require.Equal(t, row.reason, v.Reason)
			require.Equal(t, row.bad, v.FirstBadID)
			require.Equal(t, row.reason == "", v.OK)
		})
	}
}

func TestVerifyWithHeadsOfAPrunedLog(t *testing.T) {
	t.Parallel()
	s, all := prunedLog(t)
	for id, reason := range map[int]string{1: "head_pruned", 3: "head_pruned", 4: "", 5: "", 8: "", 10: ""} {
		v, err := auditlog.Verify(t.Context(), s, "t", all[id-1].Head())
		require.NoError(t, err)
		require.Equal(t, reason, v.Reason, "head %d", id)
		require.Equal(t, reason == "", v.OK)
		require.Equal(t, uint64(5), v.FirstID)
		require.Equal(t, all[3].Head(), *v.Checkpoint)

		other := all[id-1].Head()
		other.Hash = make([]byte, 32)
		v, err = auditlog.Verify(t.Context(), s, "t", other)
		require.NoError(t, err)
		require.False(t, v.OK, "another hash for head %d", id)
	}
	v, err := auditlog.Verify(t.Context(), s, "t", auditlog.Head{Hash: make([]byte, 32)})
	require.NoError(t, err)
	require.Equal(t, "head_pruned", v.Reason, "the head of an empty log")
}

func TestVerificationJSON(t *testing.T) {
	t.Parallel()
	s, all := prunedLog(t)
	v, err := auditlog.Verify(t.Context(), s, "t", auditlog.Head{ID: 11, Hash: make([]byte, 32)})
	require.NoError(t, err)
	text, err := json.Marshal(v)
	require.NoError(t, err)
	requireText(t, `{"ok":false,"checked":6,"firstId":"5","headId":"10","headHash":"`+v.HeadHash+`",`+
		`"checkpoint":{"id":"4","hash":"`+hex.EncodeToString(all[3].Hash)+`","at":"2026-01-01T04:00:00.000000Z"},`+
		`"firstBadId":"11","reason":"head_in_future"}`, string(text))
}

// A verb and its detail belong together, because Verify recognizes a pruning by its verb.
func TestDefineReservesThePruning(t *testing.T) {
	t.Parallel()
	require.Panics(t, func() { auditlog.Define[auditlog.None]("auth.prune_audit") })
	require.Panics(t, func() { auditlog.Define[auditlog.Pruning]("auth.prune") })
	require.Equal(t, "log.prune_audit", auditlog.Define[auditlog.Pruning]("log.prune_audit").Name())
}

func TestHeadJSON(t *testing.T) {
	t.Parallel()
	head := entriesOf(t, filled(t, 3))[2].Head()
	text, err := json.Marshal(head)
	require.NoError(t, err)
	var got auditlog.Head
	require.NoError(t, json.Unmarshal(text, &got))
	require.Equal(t, head, got)
	for _, bad := range []string{`{}`, `[]`, `{"id":"1","hash":"x","at":"2026-01-01T04:00:00.000000Z"}`, `{"id":"1","hash":"","at":"today"}`} {
		require.Error(t, json.Unmarshal([]byte(bad), &got), bad)
	}
}
