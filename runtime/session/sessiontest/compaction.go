package sessiontest

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/session"
)

func compact(t *testing.T, s session.Session, to ...string) {
	t.Helper()
	var messages []model.Message
	for _, text := range to {
		messages = append(messages, model.UserText(text))
	}
	require.NoError(t, s.Compact(t.Context(), messages))
}

func compaction(t *testing.T, store session.Store) {
	t.Helper()
	t.Run("what is kept is there when it is resumed, and what is said then", func(t *testing.T) {
		s := open(t, store, "a", "")
		say(t, s, "one")
		say(t, s, "two")
		compact(t, s, "summary", "two")
		require.Equal(t, []string{"summary", "two"}, texts(s))
		say(t, s, "three")
		require.Equal(t, []string{"summary", "two", "three"}, texts(s))
		require.NoError(t, s.Close())
		again := open(t, store, "a", s.ID())
		require.True(t, again.Resumed())
		require.Equal(t, []string{"summary", "two", "three"}, texts(again))
		say(t, again, "four")
		require.NoError(t, again.Close())
		again = open(t, store, "a", s.ID())
		require.Equal(t, []string{"summary", "two", "three", "four"}, texts(again))
		require.NoError(t, again.Close())
	})
	t.Run("again and again", func(t *testing.T) {
		s := open(t, store, "a", "")
		for range 5 {
			say(t, s, "one")
			compact(t, s, "first")
			compact(t, s, "second", "third")
			id := s.ID()
			require.NoError(t, s.Close())
			s = open(t, store, "a", id)
			require.True(t, s.Resumed())
			require.Equal(t, []string{"second", "third"}, texts(s))
		}
		require.NoError(t, s.Close())
	})
	t.Run("as the first word", func(t *testing.T) {
		s := open(t, store, "a", "")
		compact(t, s, "summary")
		say(t, s, "one")
		require.NoError(t, s.Close())
		again := open(t, store, "a", s.ID())
		require.Equal(t, []string{"summary", "one"}, texts(again))
		require.NoError(t, again.Close())
	})
	t.Run("to nothing leaves a session in which nothing was said", func(t *testing.T) {
		for _, said := range [][]string{nil, {"one"}} {
			s := open(t, store, "a", "")
			for _, text := range said {
				say(t, s, text)
			}
			compact(t, s)
			require.Empty(t, s.Messages())
			require.NoError(t, s.Close())
			again := open(t, store, "a", s.ID())
			require.False(t, again.Resumed())
			require.NoError(t, again.Close())
		}
	})
	t.Run("to nothing, and one goes on", func(t *testing.T) {
		s := open(t, store, "a", "")
		say(t, s, "one")
		compact(t, s)
		say(t, s, "two")
		require.NoError(t, s.Close())
		again := open(t, store, "a", s.ID())
		require.True(t, again.Resumed())
		require.Equal(t, []string{"two"}, texts(again))
		require.NoError(t, again.Close())
	})
	t.Run("no list changes that was read or handed over", func(t *testing.T) {
		s := open(t, store, "a", "")
		say(t, s, "one")
		say(t, s, "two")
		before := s.Messages()
		handed := slices.Insert(slices.Clone(before[1:]), 0, model.UserText("summary"))
		require.NoError(t, s.Compact(t.Context(), handed))
		handed[0] = model.UserText("not said")
		_ = append(handed[:1], model.UserText("not said"))
		say(t, s, "three")
		require.Equal(t, []string{"summary", "two", "three"}, texts(s))
		require.Equal(t, "one", before[0].Text())
		require.Len(t, before, 2)

		require.NoError(t, s.Compact(t.Context(), s.Messages()[1:]), "a part of the list itself")
		say(t, s, "four")
		require.Equal(t, []string{"two", "three", "four"}, texts(s))
		require.NoError(t, s.Close())
	})
	t.Run("all of a message comes back", func(t *testing.T) {
		s := open(t, store, "a", "")
		say(t, s, "one")
		require.NoError(t, s.Compact(t.Context(), everything()))
		require.Equal(t, everything(), s.Messages())
		require.NoError(t, s.Close())
		again := open(t, store, "a", s.ID())
		require.Equal(t, everything(), again.Messages())
		require.NoError(t, again.Close())
	})
	t.Run("the run still holds it, and nobody else", func(t *testing.T) {
		s := open(t, store, "a", "")
		say(t, s, "one")
		compact(t, s, "summary")
		_, err := store.Open(t.Context(), "a", s.ID())
		require.ErrorIs(t, err, session.ErrBusy)
		require.NoError(t, s.Close())
		require.NoError(t, open(t, store, "a", s.ID()).Close())
	})
	t.Run("a run that is cancelled keeps what it did", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		s := open(t, store, "a", "")
		require.NoError(t, s.Compact(ctx, []model.Message{model.UserText("summary")}))
		require.NoError(t, s.Close())
		again := open(t, store, "a", s.ID())
		require.Equal(t, []string{"summary"}, texts(again))
		require.NoError(t, again.Close())
	})
}
