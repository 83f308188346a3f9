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
	"github.com/seed93082962/agenthost/runtime/session/sessiontest"
)

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

// TestStore runs the suite on both stores.
func TestStore(t *testing.T) {
	for name, store := range map[string]session.Store{
		"memory": session.NewMemory(session.MemoryConfig{}),
		"files":  newFiles(t, session.FilesConfig{}),
	} {
		t.Run(name, func(t *testing.T) { sessiontest.Test(t, store) })
	}
}

// assertNoError is for goroutines, which must not call FailNow.
func assertNoError(t testing.TB, err error) bool {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
	return err == nil
}

func TestMemoryExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := session.NewMemory(session.MemoryConfig{})
		s := open(t, store, "a", "")
		appendText(t, s, "one")
		require.NoError(t, s.Close())
		<-time.After(720*time.Hour - time.Second)
		s = open(t, store, "a", s.ID())
		require.True(t, s.Resumed())
		<-time.After(1000 * time.Hour) // an open session does not expire
		require.NoError(t, s.Close())
		<-time.After(720 * time.Hour)
		require.False(t, open(t, store, "a", s.ID()).Resumed())
	})
}

func TestMemoryIsBounded(t *testing.T) {
	store := session.NewMemory(session.MemoryConfig{MaxBytes: 10_000})
	var all []string
	inUse := open(t, store, "a", "")
	appendText(t, inUse, strings.Repeat("x", 1000))
	for range 20 {
		s := open(t, store, "a", "")
		appendText(t, s, strings.Repeat("x", 1000))
		require.NoError(t, s.Close())
		all = append(all, s.ID())
	}
	require.NoError(t, inUse.Close())
	resumed := func(id string) bool {
		s := open(t, store, "a", id)
		defer func() { require.NoError(t, s.Close()) }()
		return s.Resumed()
	}
	require.True(t, resumed(inUse.ID()), "a session in use is not evicted")
	require.True(t, resumed(all[19]), "the most recently used session")
	require.False(t, resumed(all[0]))
}

func TestMemoryCountsEverything(t *testing.T) {
	long := strings.Repeat("x", 2000)
	for name, b := range map[string]model.Block{
		"text": {Text: long}, "signature": {Signature: long}, "data": {Data: long}, "id": {ID: long}, "name": {Name: long},
		"input": {Input: []byte(long)}, "bad input": {BadInput: long}, "field": {Field: long}, "details": {Details: []byte(long)},
		"extra": {Extra: []byte(long)}, "image": {Images: []model.Image{{Data: []byte(long)}}},
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

func TestMemoryDoesNotCountEmptySessions(t *testing.T) {
	store := session.NewMemory(session.MemoryConfig{MaxBytes: 5000})
	kept := open(t, store, "a", "")
	appendText(t, kept, "one")
	require.NoError(t, kept.Close())
	for range 100 { // empty sessions
		require.NoError(t, open(t, store, "a", "").Close())
	}
	require.True(t, open(t, store, "a", kept.ID()).Resumed())
}

func ExampleNewMemory() {
	ctx := context.Background()
	store := session.NewMemory(session.MemoryConfig{})
	s, _ := store.Open(ctx, "helper", "")
	_ = s.Append(ctx, model.UserText("Hello"))
	_ = s.Close()

	again, _ := store.Open(ctx, "helper", s.ID())
	fmt.Println(again.Resumed(), again.Messages()[0].Text())
	// Output: true Hello
}
