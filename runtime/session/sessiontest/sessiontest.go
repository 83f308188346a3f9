// Package sessiontest provides the conformance suite of [session.Store]. A test of a store runs it:
//
//	func TestStore(t *testing.T) {
//		sessiontest.Test(t, mystore.New(t.TempDir()))
//	}
package sessiontest

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/session"
)

// Test runs the suite on a store. It creates some hundred sessions of agents named "a", "b" and
// "many-0" to "many-4". The store may be in use by others.
func Test(t *testing.T, store session.Store) {
	t.Helper()
	t.Run("conversation", func(t *testing.T) { conversation(t, store) })
	t.Run("compaction", func(t *testing.T) { compaction(t, store) })
	t.Run("waiting", func(t *testing.T) { waiting(t, store) })
	t.Run("deletion", func(t *testing.T) { deletion(t, store) })
	t.Run("transcript", func(t *testing.T) { transcript(t, store) })
	t.Run("concurrent sessions", func(t *testing.T) { concurrentSessions(t, store) })
	t.Run("concurrent opens", func(t *testing.T) { concurrentOpens(t, store) })
	t.Run("concurrent compactions", func(t *testing.T) { concurrentCompactions(t, store) })
	t.Run("concurrent deletions", func(t *testing.T) { concurrentDeletions(t, store) })
}

func conversation(t *testing.T, store session.Store) {
	t.Helper()
	t.Run("an empty id creates a session", func(t *testing.T) {
		s := open(t, store, "a", "")
		require.True(t, ids.ValidSession(s.ID()))
		require.False(t, s.Resumed())
		require.Empty(t, s.Messages())
		require.NoError(t, s.Close())
	})
	t.Run("an unknown id creates a session with another id", func(t *testing.T) {
		s := open(t, store, "a", "unknown")
		require.NotEqual(t, "unknown", s.ID())
		require.False(t, s.Resumed())
		require.NoError(t, s.Close())
	})
	t.Run("messages are stored until the session is resumed", func(t *testing.T) {
		s := open(t, store, "a", "")
		appendText(t, s, "one")
		appendText(t, s, "two")
		require.NoError(t, s.Close())
		again := open(t, store, "a", s.ID())
		require.True(t, again.Resumed())
		require.Equal(t, s.ID(), again.ID())
		require.Equal(t, []string{"one", "two"}, texts(again))
		appendText(t, again, "three")
		require.Equal(t, []string{"one", "two", "three"}, texts(again))
		require.NoError(t, again.Close())
	})
	t.Run("a returned slice does not change", func(t *testing.T) {
		s := open(t, store, "a", "")
		appendText(t, s, "one")
		before := s.Messages()
		_ = append(before, model.UserText("not stored"))
		appendText(t, s, "two")
		require.Len(t, before, 1)
		require.Equal(t, []string{"one", "two"}, texts(s))
		require.NoError(t, s.Close())
	})
	t.Run("one run at a time", func(t *testing.T) {
		s := open(t, store, "a", "")
		appendText(t, s, "one")
		_, err := store.Open(t.Context(), "a", s.ID())
		require.ErrorIs(t, err, session.ErrBusy)
		require.NoError(t, s.Close())
		require.NoError(t, open(t, store, "a", s.ID()).Close())
	})
	t.Run("one run at a time, also before the first message", func(t *testing.T) {
		s := open(t, store, "a", "")
		_, err := store.Open(t.Context(), "a", s.ID())
		require.ErrorIs(t, err, session.ErrBusy)
		require.NoError(t, s.Close())
	})
	t.Run("an empty session is not stored", func(t *testing.T) {
		s := open(t, store, "a", "")
		require.NoError(t, s.Close())
		again := open(t, store, "a", s.ID())
		require.False(t, again.Resumed())
		require.NotEqual(t, s.ID(), again.ID())
		require.NoError(t, again.Close())
	})
	t.Run("ids are not paths", func(t *testing.T) {
		for _, id := range []string{".", "..", "../b/x", "/etc/passwd", "a/b", "a\\b", "a\x00", strings.Repeat("x", 5000)} {
			s := open(t, store, "a", id)
			require.False(t, s.Resumed())
			require.True(t, ids.ValidSession(s.ID()))
			require.NoError(t, s.Close())
		}
	})
	t.Run("every field of a message is stored", func(t *testing.T) {
		messages := allBlocks()
		s := open(t, store, "a", "")
		for _, m := range messages {
			require.NoError(t, s.Append(t.Context(), m))
		}

		require.Equal(t, messages, s.Messages())
		require.NoError(t, s.Close())
		again := open(t, store, "a", s.ID())
		require.Equal(t, messages, again.Messages())
		require.NoError(t, again.Close())
	})
	t.Run("a cancelled context does not prevent an append", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		s := open(t, store, "a", "")
		require.NoError(t, s.Append(ctx, model.UserText("one")))
		require.NoError(t, s.Close())
		again := open(t, store, "a", s.ID())
		require.Equal(t, []string{"one"}, texts(again))
		require.NoError(t, again.Close())
	})
	t.Run("a session is unknown to another agent", func(t *testing.T) {
		s := open(t, store, "a", "")
		appendText(t, s, "one")
		other := open(t, store, "b", s.ID())
		require.False(t, other.Resumed())
		require.NotEqual(t, s.ID(), other.ID())
		require.NoError(t, other.Close())
		require.NoError(t, s.Close())
	})
}

func deletion(t *testing.T, store session.Store) {
	t.Helper()
	t.Run("a deleted session is unknown", func(t *testing.T) {
		for _, agent := range []string{"a", "b"} {
			s, other := open(t, store, agent, ""), open(t, store, "a", "")
			appendText(t, s, "one")
			appendText(t, other, "two")
			require.NoError(t, s.Close())
			require.NoError(t, other.Close())
			require.NoError(t, store.Delete(t.Context(), s.ID()))
			again := open(t, store, agent, s.ID())
			require.False(t, again.Resumed())
			require.NotEqual(t, s.ID(), again.ID())
			require.NoError(t, again.Close())
			again = open(t, store, "a", other.ID())
			require.Equal(t, []string{"two"}, texts(again))
			require.NoError(t, again.Close())
		}
	})
	t.Run("an unknown session", func(t *testing.T) {
		s := open(t, store, "a", "")
		appendText(t, s, "one")
		require.NoError(t, s.Close())
		require.NoError(t, store.Delete(t.Context(), s.ID()))
		for _, id := range []string{
			s.ID(), "", "unknown", ".", "..", "../b/x", "/etc/passwd", "a/b", "a\\b", "a\x00", "*", strings.Repeat("x", 5000),
		} {
			require.NoError(t, store.Delete(t.Context(), id), id)
		}
	})
	t.Run("a session in use is not deleted", func(t *testing.T) {
		s := open(t, store, "a", "")
		require.ErrorIs(t, store.Delete(t.Context(), s.ID()), session.ErrBusy)
		appendText(t, s, "one")
		require.ErrorIs(t, store.Delete(t.Context(), s.ID()), session.ErrBusy)
		compact(t, s, "summary")
		require.ErrorIs(t, store.Delete(t.Context(), s.ID()), session.ErrBusy)
		require.NoError(t, s.Close())
		again := open(t, store, "a", s.ID())
		require.Equal(t, []string{"summary"}, texts(again))
		require.ErrorIs(t, store.Delete(t.Context(), s.ID()), session.ErrBusy)
		require.NoError(t, again.Close())
		require.NoError(t, store.Delete(t.Context(), s.ID()))
	})
}

// allBlocks returns messages with every kind of block, and with text that needs escapes.
func allBlocks() []model.Message {
	return []model.Message{
		model.UserText("line\nline\r\n\x00\x1b\u2028 \\ \" <a&b> \U0001F600 " + strings.Repeat("long ", 50_000)),
		{Role: model.RoleAssistant, Content: []model.Block{
			{Type: model.BlockThinking, Text: "hm", Signature: "sig=="},
			{Type: model.BlockRedacted, Data: "data=="},
			{Type: model.BlockText},
			{Type: model.BlockToolUse, ID: "t1", Name: "Bash", Input: []byte(`{"command":"a && b < c","n":1e3}`)},
			{Type: model.BlockToolUse, ID: "t2", Name: "Read", Input: []byte(`{}`), BadInput: `{"file_path`},
		}},
		{Role: model.RoleUser, Content: []model.Block{
			{Type: model.BlockToolResult, ID: "t1", Text: "no\n", IsError: true},
			{Type: model.BlockToolResult, ID: "t2", Text: "bad"},
		}},
	}
}

func open(t *testing.T, store session.Store, agent, id string) session.Session {
	t.Helper()
	s, err := store.Open(t.Context(), agent, id)
	require.NoError(t, err)
	return s
}

func appendText(t *testing.T, s session.Session, text string) {
	t.Helper()
	require.NoError(t, s.Append(t.Context(), model.UserText(text)))
}

func texts(s session.Session) []string {
	var all []string
	for _, m := range s.Messages() {
		all = append(all, m.Text())
	}

	return all
}
