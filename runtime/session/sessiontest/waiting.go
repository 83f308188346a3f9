package sessiontest

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/session"
)

func waiting(t *testing.T, store session.Store) {
	t.Helper()
	set := func(t *testing.T, s session.Session, value string) {
		t.Helper()
		var raw json.RawMessage
		if value != "" {
			raw = json.RawMessage(value)
		}

		require.NoError(t, s.SetWaiting(t.Context(), raw))
		require.Equal(t, value, string(s.Waiting()))
	}
	again := func(t *testing.T, s session.Session) session.Session {
		t.Helper()
		require.NoError(t, s.Close())
		next := open(t, store, "a", s.ID())
		require.True(t, next.Resumed())
		return next
	}
	t.Run("a session waits until it is said to wait no longer", func(t *testing.T) {
		s := open(t, store, "a", "")
		require.Nil(t, s.Waiting())
		appendText(t, s, "one")
		set(t, s, `{"for":"<Ada>"}`)
		s = again(t, s)
		require.JSONEq(t, `{"for":"<Ada>"}`, string(s.Waiting()))
		set(t, s, `"another"`)
		appendText(t, s, "two")
		s = again(t, s)
		require.Equal(t, `"another"`, string(s.Waiting()))
		set(t, s, "")
		require.Nil(t, s.Waiting())
		s = again(t, s)
		require.Nil(t, s.Waiting())
		require.Equal(t, []string{"one", "two"}, texts(s))
		require.NoError(t, s.Close())
	})
	t.Run("it waits after a compaction", func(t *testing.T) {
		s := open(t, store, "a", "")
		appendText(t, s, "one")
		set(t, s, `[1]`)
		compact(t, s, "summary")
		require.Equal(t, `[1]`, string(s.Waiting()))
		s = again(t, s)
		require.Equal(t, `[1]`, string(s.Waiting()))
		set(t, s, "")
		compact(t, s, "summary of the summary")
		s = again(t, s)
		require.Nil(t, s.Waiting())
		require.NoError(t, s.Close())
	})
	t.Run("events are stored with its end, beyond the limit of Record", func(t *testing.T) {
		s := open(t, store, "a", "")
		s.Begin("run")
		appendText(t, s, "one")
		for range 20 {
			require.NoError(t, s.Record(json.RawMessage(`"`+strings.Repeat("x", 1<<20)+`"`)))
		}

		require.NoError(t, s.SetWaiting(t.Context(), nil, json.RawMessage(`"nothing waited"`)))
		set(t, s, `[1]`)
		require.NoError(t, s.SetWaiting(t.Context(), nil, json.RawMessage(`{"a":1}`), json.RawMessage(`{"a":2}`)))
		appendText(t, s, "two")
		s = again(t, s)
		require.Nil(t, s.Waiting())
		appendText(t, s, "three")
		require.NoError(t, s.Close())
		page, err := store.Transcript(t.Context(), s.ID(), 0, 1)
		require.NoError(t, err)
		page, err = store.Transcript(t.Context(), s.ID(), page.Total-4, 10)
		require.NoError(t, err)
		require.Len(t, page.Entries, 4)
		require.JSONEq(t, `{"a":1}`, string(page.Entries[0].Event))
		require.JSONEq(t, `{"a":2}`, string(page.Entries[1].Event))
		require.Equal(t, "run", page.Entries[1].Run)
		require.Equal(t, page.Total-3, page.Entries[0].Seq)
		require.Equal(t, "two", page.Entries[2].Message.Text())
	})
	t.Run("what waits is not an entry of the transcript", func(t *testing.T) {
		s := open(t, store, "a", "")
		appendText(t, s, "one")
		set(t, s, `[1]`)
		appendText(t, s, "two")
		s = again(t, s)
		set(t, s, "")
		appendText(t, s, "three")
		require.NoError(t, s.Close())
		page, err := store.Transcript(t.Context(), s.ID(), 1, 10)
		require.NoError(t, err)
		require.Len(t, page.Entries, 2)
		require.EqualValues(t, 3, page.Total)
		require.EqualValues(t, 3, page.Entries[1].Seq)
		require.Equal(t, "three", page.Entries[1].Message.Text())
	})
}
