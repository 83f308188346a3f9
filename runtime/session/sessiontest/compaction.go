package sessiontest

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/session"
)

func compact(t *testing.T, s session.Session, texts ...string) {
	t.Helper()
	var messages []model.Message
	for _, text := range texts {
		messages = append(messages, model.UserText(text))
	}

	require.NoError(t, s.Compact(t.Context(), messages))
}

func compaction(t *testing.T, store session.Store) {
	t.Helper()
	t.Run("the new messages are stored, and further ones are appended", func(t *testing.T) {
		s := open(t, store, "a", "")
		appendText(t, s, "one")
		appendText(t, s, "two")
		compact(t, s, "summary", "two")
		require.Equal(t, []string{"summary", "two"}, texts(s))
		appendText(t, s, "three")
		require.Equal(t, []string{"summary", "two", "three"}, texts(s))
		require.NoError(t, s.Close())
		again := open(t, store, "a", s.ID())
		require.True(t, again.Resumed())
		require.Equal(t, []string{"summary", "two", "three"}, texts(again))
		appendText(t, again, "four")
		require.NoError(t, again.Close())
		again = open(t, store, "a", s.ID())
		require.Equal(t, []string{"summary", "two", "three", "four"}, texts(again))
		require.NoError(t, again.Close())
	})
	t.Run("repeated", func(t *testing.T) {
		s := open(t, store, "a", "")
		for range 5 {
			appendText(t, s, "one")
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
	t.Run("of a new session", func(t *testing.T) {
		s := open(t, store, "a", "")
		compact(t, s, "summary")
		appendText(t, s, "one")
		require.NoError(t, s.Close())
		again := open(t, store, "a", s.ID())
		require.Equal(t, []string{"summary", "one"}, texts(again))
		require.NoError(t, again.Close())
	})
	t.Run("to nothing leaves an empty session", func(t *testing.T) {
		for _, stored := range [][]string{nil, {"one"}} {
			s := open(t, store, "a", "")
			for _, text := range stored {
				appendText(t, s, text)
			}

			compact(t, s)
			require.Empty(t, s.Messages())
			require.NoError(t, s.Close())
			again := open(t, store, "a", s.ID())
			require.False(t, again.Resumed())
			require.NoError(t, again.Close())
		}
	})
	t.Run("to nothing, then appends", func(t *testing.T) {
		s := open(t, store, "a", "")
		appendText(t, s, "one")
		compact(t, s)
		appendText(t, s, "two")
		require.NoError(t, s.Close())
		again := open(t, store, "a", s.ID())
		require.True(t, again.Resumed())
		require.Equal(t, []string{"two"}, texts(again))
		require.NoError(t, again.Close())
	})
	t.Run("slices of the caller and of the store are independent", func(t *testing.T) {
		s := open(t, store, "a", "")
		appendText(t, s, "one")
		appendText(t, s, "two")
		before := s.Messages()
		messages := slices.Insert(slices.Clone(before[1:]), 0, model.UserText("summary"))
		require.NoError(t, s.Compact(t.Context(), messages))
		messages[0] = model.UserText("not stored")
		_ = append(messages[:1], model.UserText("not stored"))
		appendText(t, s, "three")
		require.Equal(t, []string{"summary", "two", "three"}, texts(s))
		require.Equal(t, "one", before[0].Text())
		require.Len(t, before, 2)

		require.NoError(t, s.Compact(t.Context(), s.Messages()[1:]), "a part of its own slice")
		appendText(t, s, "four")
		require.Equal(t, []string{"two", "three", "four"}, texts(s))
		require.NoError(t, s.Close())
	})
	t.Run("every field of a message is stored", func(t *testing.T) {
		s := open(t, store, "a", "")
		appendText(t, s, "one")
		require.NoError(t, s.Compact(t.Context(), allBlocks()))
		require.Equal(t, allBlocks(), s.Messages())
		require.NoError(t, s.Close())
		again := open(t, store, "a", s.ID())
		require.Equal(t, allBlocks(), again.Messages())
		require.NoError(t, again.Close())
	})
	t.Run("the session stays open for its run only", func(t *testing.T) {
		s := open(t, store, "a", "")
		appendText(t, s, "one")
		compact(t, s, "summary")
		_, err := store.Open(t.Context(), "a", s.ID())
		require.ErrorIs(t, err, session.ErrBusy)
		require.NoError(t, s.Close())
		require.NoError(t, open(t, store, "a", s.ID()).Close())
	})
	t.Run("a cancelled context does not prevent it", func(t *testing.T) {
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
