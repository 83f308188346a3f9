package session_test

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/session"
)

// open opens a session, and says something in it so that it is kept.
func open(t *testing.T, store session.Store, agent, id string) session.Session {
	t.Helper()
	s, err := store.Open(t.Context(), agent, id)
	require.NoError(t, err)
	return s
}

func say(t *testing.T, s session.Session, text string) {
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

// TestStore is what every store must do.
func TestStore(t *testing.T) {
	for name, store := range map[string]session.Store{
		"memory": session.NewMemory(session.MemoryConfig{}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Run("an empty id begins a session", func(t *testing.T) {
				s := open(t, store, "a", "")
				require.True(t, session.ValidID(s.ID()))
				require.False(t, s.Resumed())
				require.Empty(t, s.Messages())
				require.NoError(t, s.Close())
			})
			t.Run("an unknown id begins one under another id", func(t *testing.T) {
				s := open(t, store, "a", "unknown")
				require.NotEqual(t, "unknown", s.ID())
				require.False(t, s.Resumed())
				require.NoError(t, s.Close())
			})
			t.Run("what was said is there when it is resumed", func(t *testing.T) {
				s := open(t, store, "a", "")
				say(t, s, "one")
				say(t, s, "two")
				require.NoError(t, s.Close())
				again := open(t, store, "a", s.ID())
				require.True(t, again.Resumed())
				require.Equal(t, s.ID(), again.ID())
				require.Equal(t, []string{"one", "two"}, texts(again))
				say(t, again, "three")
				require.Equal(t, []string{"one", "two", "three"}, texts(again))
				require.NoError(t, again.Close())
			})
			t.Run("a list that was read does not change", func(t *testing.T) {
				s := open(t, store, "a", "")
				say(t, s, "one")
				before := s.Messages()
				_ = append(before, model.UserText("not said"))
				say(t, s, "two")
				require.Len(t, before, 1)
				require.Equal(t, []string{"one", "two"}, texts(s))
				require.NoError(t, s.Close())
			})
			t.Run("one run at a time", func(t *testing.T) {
				s := open(t, store, "a", "")
				say(t, s, "one")
				_, err := store.Open(t.Context(), "a", s.ID())
				require.ErrorIs(t, err, session.ErrBusy)
				require.NoError(t, s.Close())
				require.NoError(t, open(t, store, "a", s.ID()).Close())
			})
			t.Run("another agent does not know it", func(t *testing.T) {
				s := open(t, store, "a", "")
				say(t, s, "one")
				other := open(t, store, "b", s.ID())
				require.False(t, other.Resumed())
				require.NotEqual(t, s.ID(), other.ID())
				require.NoError(t, other.Close())
				require.NoError(t, s.Close())
			})
		})
	}
}

func TestMemoryForgetsWhatIsOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := session.NewMemory(session.MemoryConfig{})
		s := open(t, store, "a", "")
		say(t, s, "one")
		require.NoError(t, s.Close())
		<-time.After(720*time.Hour - time.Second)
		s = open(t, store, "a", s.ID())
		require.True(t, s.Resumed())
		<-time.After(1000 * time.Hour) // a session in use is not old
		require.NoError(t, s.Close())
		<-time.After(720 * time.Hour)
		require.False(t, open(t, store, "a", s.ID()).Resumed())
	})
}

func TestMemoryIsBounded(t *testing.T) {
	store := session.NewMemory(session.MemoryConfig{MaxBytes: 10_000})
	var all []string
	held := open(t, store, "a", "")
	say(t, held, strings.Repeat("x", 1000))
	for range 20 {
		s := open(t, store, "a", "")
		say(t, s, strings.Repeat("x", 1000))
		require.NoError(t, s.Close())
		all = append(all, s.ID())
	}
	require.NoError(t, held.Close())
	resumed := func(id string) bool {
		s := open(t, store, "a", id)
		defer func() { require.NoError(t, s.Close()) }()
		return s.Resumed()
	}
	require.True(t, resumed(held.ID()), "what is in use stays")
	require.True(t, resumed(all[19]), "so does what was used last")
	require.False(t, resumed(all[0]))
}

func TestMemoryCountsEverything(t *testing.T) {
	long := strings.Repeat("x", 2000)
	for name, b := range map[string]model.Block{
		"text": {Text: long}, "signature": {Signature: long}, "data": {Data: long}, "id": {ID: long}, "name": {Name: long},
		"input": {Input: []byte(long)}, "bad input": {BadInput: long},
	} {
		t.Run(name, func(t *testing.T) {
			store := session.NewMemory(session.MemoryConfig{MaxBytes: 10_000})
			var first string
			for range 8 {
				s := open(t, store, "a", "")
				first = cmp.Or(first, s.ID())
				require.NoError(t, s.Append(t.Context(), model.Message{Content: []model.Block{b}}))
				require.NoError(t, s.Close())
			}
			require.False(t, open(t, store, "a", first).Resumed())
		})
	}
}

func TestMemoryForgetsEmptySessionsWhole(t *testing.T) {
	store := session.NewMemory(session.MemoryConfig{MaxBytes: 5000})
	kept := open(t, store, "a", "")
	say(t, kept, "one")
	require.NoError(t, kept.Close())
	for range 100 { // in which nothing is said, so that they take no room
		require.NoError(t, open(t, store, "a", "").Close())
	}
	require.True(t, open(t, store, "a", kept.ID()).Resumed())
}

func TestValidID(t *testing.T) {
	for id, valid := range map[string]bool{
		"a": true, "A-z_0.9": true, "...": true, strings.Repeat("a", 128): true,
		"": false, ".": false, "..": false, "a/b": false, "a b": false, "ä": false, "a\x00": false,
		strings.Repeat("a", 129): false,
	} {
		require.Equal(t, valid, session.ValidID(id), "%q", id)
	}
}

func ExampleMemory() {
	ctx := context.Background()
	store := session.NewMemory(session.MemoryConfig{})
	s, _ := store.Open(ctx, "helper", "")
	_ = s.Append(ctx, model.UserText("Hello"))
	_ = s.Close()

	again, _ := store.Open(ctx, "helper", s.ID())
	fmt.Println(again.Resumed(), again.Messages()[0].Text())
	// Output: true Hello
}
