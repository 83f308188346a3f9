// Package bustest has the suite that every [run.Bus] passes.
package bustest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/runtime/run"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// Limit is the longest time that a test waits for a condition.
const Limit = time.Minute

// Test runs the suite. Each call of open returns another connection to one bus, which is closed
// with the test.
func Test(t *testing.T, open func(t *testing.T) run.Bus) {
	for name, test := range map[string]func(*testing.T, func(*testing.T) run.Bus){
		"entries are replaced by revision":           entries,
		"entries expire":                             expiry,
		"one of many writers wins":                   writers,
		"notifications":                              notifications,
		"an ended context":                           endedContext,
		"a cancel at any replica":                    cancelAnywhere,
		"an id at any replica":                       conflicts,
		"a run that does not start":                  release,
		"a lost notification":                        lostNotification,
		"a cancel while its run ends":                raceWithEnd,
		"the first reason wins":                      firstReason,
		"the state of an ended run expires":          terminalExpiry,
		"an outage":                                  outage,
		"a cancel before an outage":                  cancelBeforeOutage,
		"an end that an outage has delayed for long": longOutage,
		"many runs":                                  manyRuns,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open)
		})
	}
}

// Await waits until a condition is met.
func Await(t *testing.T, met func() bool) {
	t.Helper()
	require.Eventually(t, met, Limit, 5*time.Millisecond)
}

func entries(t *testing.T, open func(*testing.T) run.Bus) {
	one, two := open(t), open(t)
	ctx, id := t.Context(), ids.Random()
	e, err := one.Get(ctx, id)
	require.NoError(t, err)
	require.Zero(t, e)

	want := run.Claim{Owner: ids.Random()}
	want.Revision, err = one.Put(ctx, id, want, time.Minute)
	require.NoError(t, err)
	e, err = two.Get(ctx, id)
	require.NoError(t, err)
	require.Equal(t, want, e)
	_, err = two.Put(ctx, id, run.Claim{Owner: ids.Random()}, time.Minute)
	require.ErrorIs(t, err, run.ErrChanged, "there is an entry")

	former := want.Revision
	want.State, want.Reason = wire.StateCancelling, wire.ReasonClientRequest
	want.Revision, err = two.Put(ctx, id, want, time.Minute)
	require.NoError(t, err)
	_, err = one.Put(ctx, id, run.Claim{Revision: former}, time.Minute)
	require.ErrorIs(t, err, run.ErrChanged)
	require.ErrorIs(t, one.Delete(ctx, id, former), run.ErrChanged)
	e, err = one.Get(ctx, id)
	require.NoError(t, err)
	require.Equal(t, want, e)

	require.NoError(t, one.Delete(ctx, id, want.Revision))
	e, err = two.Get(ctx, id)
	require.NoError(t, err)
	require.Zero(t, e)
	_, err = one.Put(ctx, id, want, time.Minute)
	require.ErrorIs(t, err, run.ErrChanged, "a deleted entry has no revision")
	_, err = two.Put(ctx, id, run.Claim{Owner: ids.Random()}, time.Minute)
	require.NoError(t, err)
}

func expiry(t *testing.T, open func(*testing.T) run.Bus) {
	bus, id := open(t), ids.Random()
	revision, err := bus.Put(t.Context(), id, run.Claim{}, time.Second)
	require.NoError(t, err)
	_, err = bus.Put(t.Context(), id, run.Claim{Revision: revision}, time.Second)
	require.NoError(t, err)
	Await(t, func() bool {
		e, err := bus.Get(t.Context(), id)
		require.NoError(t, err)
		return e.Revision == 0
	})
	_, err = bus.Put(t.Context(), id, run.Claim{}, time.Minute)
	require.NoError(t, err, "an expired entry is none")
}

func writers(t *testing.T, open func(*testing.T) run.Bus) {
	buses, id := []run.Bus{open(t), open(t)}, ids.Random()
	e := run.Claim{}
	for range 5 {
		var all sync.WaitGroup
		var mu sync.Mutex
		var won []uint64
		for i := range 16 {
			all.Go(func() {
				revision, err := buses[i%2].Put(t.Context(), id, e, time.Minute)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					won = append(won, revision)
				}
			})
		}

		all.Wait()
		require.Len(t, won, 1)
		e.Revision = won[0]
	}
}

func notifications(t *testing.T, open func(*testing.T) run.Bus) {
	one, two := open(t), open(t)
	owner, id := ids.Random(), ids.Random()
	require.Error(t, one.Notify(t.Context(), owner, id), "there is no owner")
	var got []run.ID
	stop := two.Listen(owner, func(id run.ID) { got = append(got, id) })
	defer two.Listen(ids.Random(), func(run.ID) { t.Error("of another owner") })()
	notify := func() error { // one that arrives at the moment of stop may have no response
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		return one.Notify(ctx, owner, id)
	}
	Await(t, func() bool { return notify() == nil })
	require.Contains(t, got, id, "the notification has arrived")
	stop()
	Await(t, func() bool { return notify() != nil })
}

func endedContext(t *testing.T, open func(*testing.T) run.Bus) {
	bus := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, getErr := bus.Get(ctx, ids.Random())
	_, putErr := bus.Put(ctx, ids.Random(), run.Claim{}, time.Minute)
	for _, err := range []error{getErr, putErr, bus.Delete(ctx, ids.Random(), 1), bus.Notify(ctx, ids.Random(), ids.Random())} {
		expected := errors.Is(err, context.Canceled) || errors.Is(err, run.ErrChanged) || errors.Is(err, run.ErrUnavailable)
		require.True(t, err == nil || expected, err)
	}
}
