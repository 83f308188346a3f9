package sessiontest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/session"
)

// entries returns one text for each entry of a session after a seq.
func entries(t *testing.T, store session.Store, id string, after int64, limit int) (all []string, found session.Transcript) {
	t.Helper()
	found, err := store.Transcript(t.Context(), id, after, limit)
	require.NoError(t, err)
	for i, e := range found.Entries {
		if i > 0 {
			require.Greater(t, e.Seq, found.Entries[i-1].Seq)
			require.False(t, e.Time.Before(found.Entries[i-1].Time))
		}

		switch {
		case e.Message != nil:
			all = append(all, e.Message.Text())
		case e.Event != nil:
			all = append(all, string(e.Event))
		default:
			all = append(all, "compacted to "+e.Compacted[0].Text())
		}
	}

	return all, found
}

func transcript(t *testing.T, store session.Store) {
	t.Helper()
	record := func(t *testing.T, s session.Session, event string) {
		t.Helper()
		require.NoError(t, s.Record([]byte(event)))
	}
	t.Run("messages and events in their order, also during a run", func(t *testing.T) {
		began := time.Now().Add(-time.Second)
		s := open(t, store, "a", "")
		s.Begin("r1")
		record(t, s, `{"a":"<1>"}`) // before the first message
		appendText(t, s, "one")
		record(t, s, `{"b":2}`)
		all, found := entries(t, store, s.ID(), 0, 100)
		want := []string{`{"a":"<1>"}`, "one", `{"b":2}`}
		require.Equal(t, want, all)
		require.Equal(t, []any{s.ID(), "a", int64(3)}, []any{found.ID, found.AgentID, found.Total})
		for _, at := range []time.Time{found.Created, found.Entries[0].Time, found.Entries[2].Time} {
			require.WithinRange(t, at, began, time.Now())
		}

		require.NoError(t, s.Close())
		again := open(t, store, "a", s.ID())
		require.Equal(t, []string{"one"}, texts(again), "events are no messages")
		again.Begin("r2")
		record(t, again, `{"c":3}`)
		appendText(t, again, "two")
		compact(t, again, "summary")
		all, found = entries(t, store, s.ID(), 0, 100)
		require.NoError(t, again.Close())
		runs := []string{"r1", "r1", "r1", "r2", "r2", "r2"}
		want = append(want, `{"c":3}`, "two", "compacted to summary")
		from := len(want) - len(all) // a store may drop what is before a compaction
		require.Equal(t, want[from:], all)
		for i, e := range found.Entries {
			require.Equal(t, runs[from+i], e.Run)
		}
	})
	t.Run("pages", func(t *testing.T) {
		s := open(t, store, "a", "")
		for n := range 10 {
			appendText(t, s, fmt.Sprint(n))
		}

		require.NoError(t, s.Close())
		for after, want := range map[int64][]string{0: {"0", "1", "2"}, 4: {"4", "5", "6"}, 8: {"8", "9"}, 10: nil, 1 << 40: nil} {
			all, found := entries(t, store, s.ID(), after, 3)
			require.Equal(t, want, all)
			require.EqualValues(t, 10, found.Total)
			if len(want) > 0 {
				require.Equal(t, after+1, found.Entries[0].Seq)
			}
		}
	})
	t.Run("a page is bounded in bytes, and has at least one entry", func(t *testing.T) {
		s := open(t, store, "a", "")
		for range 3 {
			appendText(t, s, strings.Repeat("x", 5<<20))
		}

		require.NoError(t, s.Close())
		for after := range int64(3) {
			_, found := entries(t, store, s.ID(), after, 10)
			require.Len(t, found.Entries, 1)
			require.Equal(t, after+1, found.Entries[0].Seq)
			require.EqualValues(t, 3, found.Total)
		}
	})
	t.Run("a compaction is an entry", func(t *testing.T) {
		s := open(t, store, "a", "")
		appendText(t, s, "one")
		record(t, s, `{}`)
		compact(t, s, "summary", "one")
		appendText(t, s, "two")
		all, found := entries(t, store, s.ID(), 2, 10)
		require.Equal(t, []string{"compacted to summary", "two"}, all)
		require.EqualValues(t, 3, found.Entries[0].Seq, "entries before may be missing, and numbers remain")
		require.Len(t, found.Entries[0].Compacted, 2)
		require.NoError(t, s.Close())
	})
	t.Run("events are bounded", func(t *testing.T) {
		s := open(t, store, "a", "")
		appendText(t, s, "one")
		event := `"` + strings.Repeat("x", 1<<20) + `"`
		for range 20 {
			record(t, s, event)
		}

		_, found := entries(t, store, s.ID(), 0, 1)
		require.InDelta(t, 16, found.Total, 1)
		compact(t, s, "summary")
		record(t, s, `{}`)
		_, after := entries(t, store, s.ID(), 0, 1)
		require.Equal(t, found.Total+2, after.Total, "a compaction makes room")
		require.NoError(t, s.Close())
	})
	t.Run("events are recorded during other calls", func(t *testing.T) {
		s := open(t, store, "a", "")
		var both sync.WaitGroup
		both.Go(func() {
			for n := range 100 {
				assertNoError(t, s.Append(t.Context(), model.UserText(fmt.Sprint(n))))
			}
		})
		for range 100 {
			record(t, s, `{}`)
		}

		both.Wait()
		require.NoError(t, s.Close())
		_, found := entries(t, store, s.ID(), 0, 1)
		require.EqualValues(t, 200, found.Total)
		again := open(t, store, "a", s.ID())
		require.Len(t, again.Messages(), 100)
		require.NoError(t, again.Close())
	})
	t.Run("of an unknown session", func(t *testing.T) {
		s := open(t, store, "a", "")
		appendText(t, s, "one")
		require.NoError(t, s.Close())
		require.NoError(t, store.Delete(t.Context(), s.ID()))
		empty := open(t, store, "a", "")
		record(t, empty, `{}`)
		require.NoError(t, empty.Close())
		for _, id := range []string{s.ID(), empty.ID(), "", "unknown", ".", "..", "../b/x", "a/b", "a\x00", strings.Repeat("x", 5000)} {
			_, err := store.Transcript(context.WithoutCancel(t.Context()), id, 0, 10)
			require.ErrorIs(t, err, session.ErrUnknown, id)
		}
	})
}
