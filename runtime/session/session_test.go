package session_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/session"
)

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
		"files":  files(t, session.FilesConfig{}),
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
			t.Run("one run at a time, also before its first word", func(t *testing.T) {
				s := open(t, store, "a", "")
				_, err := store.Open(t.Context(), "a", s.ID())
				require.ErrorIs(t, err, session.ErrBusy)
				require.NoError(t, s.Close())
			})
			t.Run("a session in which nothing was said is unknown", func(t *testing.T) {
				s := open(t, store, "a", "")
				require.NoError(t, s.Close())
				again := open(t, store, "a", s.ID())
				require.False(t, again.Resumed())
				require.NotEqual(t, s.ID(), again.ID())
				require.NoError(t, again.Close())
			})
			t.Run("no id leads anywhere else", func(t *testing.T) {
				for _, id := range []string{".", "..", "../b/x", "/etc/passwd", "a/b", "a\\b", "a\x00", strings.Repeat("x", 5000)} {
					s := open(t, store, "a", id)
					require.False(t, s.Resumed())
					require.True(t, session.ValidID(s.ID()))
					require.NoError(t, s.Close())
				}
			})
			t.Run("all of a message comes back", func(t *testing.T) {
				said := everything()
				s := open(t, store, "a", "")
				for _, m := range said {
					require.NoError(t, s.Append(t.Context(), m))
				}
				require.Equal(t, said, s.Messages())
				require.NoError(t, s.Close())
				again := open(t, store, "a", s.ID())
				require.Equal(t, said, again.Messages())
				require.NoError(t, again.Close())
			})
			t.Run("a run that is cancelled keeps what it did", func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				s := open(t, store, "a", "")
				require.NoError(t, s.Append(ctx, model.UserText("one")))
				require.NoError(t, s.Close())
				again := open(t, store, "a", s.ID())
				require.Equal(t, []string{"one"}, texts(again))
				require.NoError(t, again.Close())
			})
			t.Run("many at once", func(t *testing.T) { manyAtOnce(t, store) })
			t.Run("one of many gets it", func(t *testing.T) { oneOfMany(t, store) })
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

// everything is messages with every kind of block, and text that is hard to write down.
func everything() []model.Message {
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

func manyAtOnce(t *testing.T, store session.Store) {
	t.Helper()
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			agent, want := fmt.Sprintf("many-%d", i%5), []string(nil)
			id := ""
			for n := range 3 {
				s, err := store.Open(t.Context(), agent, id)
				if !assertNoError(t, err) {
					return
				}
				id = s.ID()
				want = append(want, fmt.Sprint(i, n))
				if !assertNoError(t, s.Append(t.Context(), model.UserText(want[n]))) {
					return
				}
				if got := texts(s); !slices.Equal(want, got) {
					t.Errorf("got %q, want %q", got, want)
				}
				assertNoError(t, s.Close())
			}
		})
	}
	wg.Wait()
}

// oneOfMany has them open one session at the same time, again and again.
func oneOfMany(t *testing.T, store session.Store) {
	t.Helper()
	s := open(t, store, "a", "")
	say(t, s, "begin")
	require.NoError(t, s.Close())
	var holders, said atomic.Int32
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 50 {
				s, err := store.Open(t.Context(), "a", s.ID())
				if errors.Is(err, session.ErrBusy) {
					continue
				}
				if !assertNoError(t, err) {
					return
				}
				if holders.Add(1) != 1 {
					t.Error("two hold it")
				}
				assertNoError(t, s.Append(t.Context(), model.UserText("x")))
				said.Add(1)
				holders.Add(-1)
				assertNoError(t, s.Close())
			}
		})
	}
	wg.Wait()
	again := open(t, store, "a", s.ID())
	require.Len(t, again.Messages(), int(said.Load())+1)
	require.NoError(t, again.Close())
}

// assertNoError is for goroutines, which must not end their test.
func assertNoError(t *testing.T, err error) bool {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
	return err == nil
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
