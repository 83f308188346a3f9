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

func concurrentSessions(t *testing.T, store session.Store) {
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

// concurrentOpens opens one session from many goroutines.
func concurrentOpens(t *testing.T, store session.Store) {
	t.Helper()
	s := open(t, store, "a", "")
	appendText(t, s, "begin")
	require.NoError(t, s.Close())
	var active, appended atomic.Int32
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

				if active.Add(1) != 1 {
					t.Error("two runs have the session open")
				}

				assertNoError(t, s.Append(t.Context(), model.UserText("x")))
				appended.Add(1)
				active.Add(-1)
				assertNoError(t, s.Close())
			}
		})
	}

	wg.Wait()
	again := open(t, store, "a", s.ID())
	require.Len(t, again.Messages(), int(appended.Load())+1)
	require.NoError(t, again.Close())
}

// concurrentCompactions opens one session from many goroutines. Each compacts the
// session to the next number.
func concurrentCompactions(t *testing.T, store session.Store) {
	t.Helper()
	s := open(t, store, "a", "")
	appendText(t, s, "0")
	require.NoError(t, s.Close())
	var compactions atomic.Int32
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
				compactions.Add(1)
				assertNoError(t, s.Close())
			}
		})
	}

	wg.Wait()
	again := open(t, store, "a", s.ID())
	require.Equal(t, []string{strconv.Itoa(int(compactions.Load()))}, texts(again))
	require.NoError(t, again.Close())
}

// concurrentDeletions opens and deletes one session from many goroutines. A run that has it open
// keeps it, and after the deletion every run has a session of its own.
func concurrentDeletions(t *testing.T, store session.Store) {
	t.Helper()
	s := open(t, store, "a", "")
	appendText(t, s, "begin")
	require.NoError(t, s.Close())
	var deleted atomic.Bool
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for !deleted.Load() {
				again, err := store.Open(t.Context(), "a", s.ID())
				if errors.Is(err, session.ErrBusy) {
					continue
				}

				if !assertNoError(t, err) {
					return
				}

				if !again.Resumed() && again.ID() == s.ID() {
					t.Error("a new session has the id of a deleted one")
				}

				assertNoError(t, again.Append(t.Context(), model.UserText("x")))
				assertNoError(t, again.Close())
			}
		})
	}

	wg.Go(func() {
		defer deleted.Store(true)
		for {
			err := store.Delete(t.Context(), s.ID())
			if !errors.Is(err, session.ErrBusy) {
				assertNoError(t, err)
				return
			}
		}
	})
	wg.Wait()
	again := open(t, store, "a", s.ID())
	require.False(t, again.Resumed())
	require.NoError(t, again.Close())
}

// assertNoError reports whether err is nil. It is for goroutines, which must not call FailNow.
func assertNoError(t *testing.T, err error) bool {
	t.Helper()
	if err != nil {
		t.Error(err)
	}

	return err == nil
}
