package sessiontest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/session"
)

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

// oneOfManyCompacts has each holder count on, and compact the session to that number.
func oneOfManyCompacts(t *testing.T, store session.Store) {
	t.Helper()
	s := open(t, store, "a", "")
	say(t, s, "0")
	require.NoError(t, s.Close())
	var said atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				s, err := store.Open(t.Context(), "a", s.ID())
				if errors.Is(err, session.ErrBusy) {
					continue
				}
				if !assertNoError(t, err) {
					return
				}
				n, err := strconv.Atoi(s.Messages()[0].Text())
				assertNoError(t, err)
				assertNoError(t, s.Compact(t.Context(), []model.Message{model.UserText(strconv.Itoa(n + 1))}))
				said.Add(1)
				assertNoError(t, s.Close())
			}
		})
	}
	wg.Wait()
	again := open(t, store, "a", s.ID())
	require.Equal(t, []string{strconv.Itoa(int(said.Load()))}, texts(again))
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
