package registry_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/internal/logtest"
	"github.com/seed93082962/agenthost/runtime/internal/registry"
	"github.com/seed93082962/agenthost/runtime/run"
	"github.com/seed93082962/agenthost/runtime/run/bustest"
	"github.com/seed93082962/agenthost/runtime/wire"
)

func TestMemoryBus(t *testing.T) {
	bus := run.NewMemoryBus()
	bustest.Test(t, func(*testing.T) run.Bus { return bus })
}

// An active run is known for as long as its owner lives, and 30 s longer.
func TestLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := run.NewMemoryBus()
		owner, other := registry.New(registry.Config{Bus: bus}), registry.New(registry.Config{Bus: bus})
		defer other.Close()
		r := started(t, owner)
		<-time.After(time.Hour)
		_, err := other.Claim(t.Context(), r.ID())
		require.ErrorIs(t, err, registry.ErrConflict)

		owner.Close() // as if its process was killed
		<-time.After(20 * time.Second)
		_, err = other.Cancel(r.ID(), wire.ReasonClientRequest)
		require.NoError(t, err)
		<-time.After(31 * time.Second)
		_, err = other.Cancel(r.ID(), wire.ReasonClientRequest)
		require.ErrorIs(t, err, registry.ErrNotFound)
		state, _ := r.Finish(nil, nil)
		require.Equal(t, wire.StateCompleted, state)
	})
}

// Many leases are renewed, some at the same time.
func TestLeasesOfManyRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := run.NewMemoryBus()
		owner, other := registry.New(registry.Config{Bus: bus}), registry.New(registry.Config{Bus: bus})
		defer owner.Close()
		defer other.Close()
		var runs []*registry.Run
		for range 100 {
			runs = append(runs, started(t, owner))
		}
		<-time.After(2 * time.Minute)
		for _, r := range runs {
			_, err := other.Claim(t.Context(), r.ID())
			require.ErrorIs(t, err, registry.ErrConflict)
			r.Finish(nil, nil)
		}
	})
}

// The state of an ended run is known to all replicas for five minutes after its end.
func TestEndedRunsOfReplicasExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := run.NewMemoryBus()
		owner, other := registry.New(registry.Config{Bus: bus}), registry.New(registry.Config{Bus: bus})
		defer owner.Close()
		defer other.Close()
		r := started(t, owner)
		r.Finish(errFailed, nil)
		<-time.After(5*time.Minute - time.Nanosecond)
		for _, g := range []*registry.Registry{owner, other} {
			_, err := g.Cancel(r.ID(), wire.ReasonClientRequest)
			require.ErrorIs(t, err, registry.ErrEnded)
		}
		<-time.After(time.Nanosecond)
		for _, g := range []*registry.Registry{owner, other} {
			_, err := g.Cancel(r.ID(), wire.ReasonClientRequest)
			require.ErrorIs(t, err, registry.ErrNotFound)
		}
	})
}

// Two runs that began with one id during an outage continue, and the second one is not stored.
func TestTwoRunsWithOneID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := run.NewMemoryBus()
		owner := registry.New(registry.Config{Bus: bus})
		defer owner.Close()
		id := ids.Random()
		cut := &cutBus{Bus: bus}
		cut.away.Store(true)
		var logs logtest.Buffer
		other := registry.New(registry.Config{Bus: cut, Logger: slog.New(slog.NewTextHandler(&logs, nil))})
		defer other.Close()
		first, err := owner.Claim(t.Context(), id)
		require.NoError(t, err)
		require.NoError(t, first.Start())
		second, err := other.Claim(t.Context(), id)
		require.NoError(t, err, "it cannot know the first one")
		require.NoError(t, second.Start())
		cut.away.Store(false)
		<-time.After(time.Minute)
		require.True(t, other.Available())
		require.Equal(t, 1, strings.Count(logs.String(), "another replica has a run with the same id"))
		second.Finish(nil, nil)
		_, err = owner.Cancel(id, wire.ReasonClientRequest)
		require.NoError(t, err)
		state, _ := first.Finish(nil, nil)
		require.Equal(t, wire.StateCancelled, state)
	})
}

// A full bus, which can be read but not written, does not hold the ends of runs for longer than 5
// s.
func TestAFullBus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cut := &cutBus{Bus: run.NewMemoryBus()}
		cut.full.Store(true)
		g := registry.New(registry.Config{Bus: cut})
		defer g.Close()
		begin := time.Now()
		for range 100 {
			r := started(t, g)
			r.Finish(nil, nil)
			_, err := g.Cancel(r.ID(), wire.ReasonClientRequest)
			require.ErrorIs(t, err, registry.ErrEnded)
		}
		require.LessOrEqual(t, time.Since(begin), 10*time.Second, "only the first ones wait")
		require.False(t, g.Available())
	})
}

// A bus that does not respond delays each call of a run by at most 3 s, and the end of a run by 5 s
// more. Close does not wait for it, and later calls do not use it.
func TestAFrozenBus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := run.NewMemoryBus()
		cut := &cutBus{Bus: bus}
		owner, other := registry.New(registry.Config{Bus: cut}), registry.New(registry.Config{Bus: bus})
		defer other.Close()
		before, ended := started(t, owner), started(t, owner)
		cut.frozen.Store(true)
		within := func(limit time.Duration, f func()) {
			begin := time.Now()
			f()
			require.LessOrEqual(t, time.Since(begin), limit)
		}
		within(3*time.Second, func() {
			_, err := owner.Cancel(ids.Random(), wire.ReasonClientRequest)
			require.ErrorIs(t, err, run.ErrUnavailable)
		})
		within(0, func() {
			r := started(t, owner)
			_, err := owner.Cancel(r.ID(), wire.ReasonClientRequest)
			require.NoError(t, err)
			_, err = owner.Cancel(ids.Random(), wire.ReasonClientRequest)
			require.ErrorIs(t, err, run.ErrUnavailable)
		})
		within(5*time.Second, func() { ended.Finish(nil, nil) })
		require.NoError(t, before.Context().Err())

		cut.frozen.Store(false)
		<-time.After(10 * time.Second)
		require.True(t, owner.Available())
		_, err := other.Cancel(ended.ID(), wire.ReasonClientRequest)
		require.ErrorIs(t, err, registry.ErrEnded)
		_, err = other.Cancel(before.ID(), wire.ReasonClientRequest)
		require.NoError(t, err)
		require.Error(t, before.Context().Err())

		late := started(t, owner)
		cut.frozen.Store(true)
		go owner.Cancel(ids.Random(), wire.ReasonClientRequest)
		synctest.Wait()
		within(0, owner.Close)
		within(0, func() { late.Finish(nil, nil) })
		within(0, func() { before.Finish(nil, nil) })
	})
}

// A bus that reads but does not commit writes, as the leader of a cluster without a majority does,
// is not available.
func TestABusWithoutMajority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := run.NewMemoryBus()
		cut := &cutBus{Bus: bus}
		owner, other := registry.New(registry.Config{Bus: cut}), registry.New(registry.Config{Bus: bus})
		defer owner.Close()
		defer other.Close()
		continued, ended := started(t, owner), started(t, owner)
		cut.minority.Store(true)
		state, _ := ended.Finish(nil, nil)
		require.Equal(t, wire.StateCompleted, state)
		for range 100 {
			require.False(t, owner.Available())
			<-time.After(100 * time.Millisecond)
		}
		require.NoError(t, continued.Context().Err())

		cut.minority.Store(false)
		<-time.After(time.Second)
		require.True(t, owner.Available())
		_, err := other.Cancel(ended.ID(), wire.ReasonClientRequest)
		require.ErrorIs(t, err, registry.ErrEnded)
		_, err = other.Cancel(continued.ID(), wire.ReasonClientRequest)
		require.NoError(t, err)
		require.Error(t, continued.Context().Err())
		continued.Finish(nil, nil)
	})
}

// An end that could not be stored is stored later, and then not again. The log has the outage and
// its end.
func TestALateEndIsStoredOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logs logtest.Buffer
		cut := &cutBus{Bus: run.NewMemoryBus()}
		g := registry.New(registry.Config{Bus: cut, Logger: slog.New(slog.NewTextHandler(&logs, nil))})
		defer g.Close()
		r := started(t, g)
		cut.full.Store(true)
		r.Finish(nil, nil)
		<-time.After(time.Minute)
		require.Zero(t, cut.ends.Load())
		require.Contains(t, logs.String(), "the bus is unavailable")
		require.NotContains(t, logs.String(), "the bus is available again")
		cut.full.Store(false)
		<-time.After(4 * time.Minute) // its end would be stored for five minutes
		require.EqualValues(t, 1, cut.ends.Load())
		require.Contains(t, logs.String(), "the bus is available again")
	})
}

// Finish may be called by several goroutines, such as the end of a run and a deferred call.
func TestConcurrentEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cut := &cutBus{Bus: run.NewMemoryBus()}
		g := registry.New(registry.Config{Bus: cut})
		defer g.Close()
		r := started(t, g)
		started(t, g)
		cut.frozen.Store(true)
		for range 4 {
			go r.Finish(nil, nil)
		}
		<-time.After(time.Minute)
		state, _ := r.Finish(errFailed, nil)
		require.Equal(t, wire.StateCompleted, state)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.Error(t, g.Drain(ctx), "one run is active")
	})
}

// A renewal that begins while the end of a run is stored does not delay the end of an outage: a
// cancel that was stored before is found. A lock stops the clock of synctest, with which a failure
// would not end.
func TestARenewalDuringTheEnd(t *testing.T) {
	t.Parallel()
	bus, unknown := run.NewMemoryBus(), ids.Random()
	cut := &cutBus{Bus: bus}
	held, ending, renewing := newHeldBus(cut), make(chan struct{}), make(chan struct{})
	renew := sync.OnceFunc(func() { close(renewing) })
	var first sync.Once
	held.beforePut = func(_ run.ID, e run.Claim) {
		switch {
		case e.State != "":
			first.Do(func() {
				close(ending)
				<-renewing
				cut.away.Store(true)
			})
		case e.Revision != 0:
			renew()
		}
	}
	held.beforeGet = func(id run.ID) error {
		cut.away.Store(id == unknown)
		return nil
	}
	g := registry.New(registry.Config{Bus: held})
	defer g.Close()
	r, other := started(t, g), started(t, g)
	putCancel(t, bus, r.ID())
	ended := make(chan wire.State, 1)
	go func() {
		state, _ := r.Finish(nil, nil)
		ended <- state
	}()
	<-ending
	_, err := g.Cancel(unknown, wire.ReasonClientRequest) // the entries are renewed after this outage
	require.ErrorIs(t, err, run.ErrUnavailable)
	require.Equal(t, wire.StateCancelled, <-ended)
	other.Finish(nil, nil)
}

var errCut = errors.New("the bus is cut")

// cutBus is a bus that cannot be reached, cannot be written, or does not respond.
type cutBus struct {
	run.Bus
	away, full, frozen atomic.Bool
	minority           atomic.Bool  // writes are not committed
	pending            sync.Map     // the entries with such a write, which later ones are compared with
	ends               atomic.Int64 // ends of completed runs that were stored
}

func (b *cutBus) Get(ctx context.Context, id run.ID) (run.Claim, error) {
	if b.away.Load() {
		return run.Claim{}, errCut
	}
	if b.frozen.Load() {
		<-ctx.Done()
		return run.Claim{}, ctx.Err()
	}
	return b.Bus.Get(ctx, id)
}

func (b *cutBus) Put(ctx context.Context, id run.ID, e run.Claim, ttl time.Duration) (uint64, error) {
	if b.away.Load() || b.full.Load() {
		return 0, errCut
	}
	if b.minority.Load() {
		if _, found := b.pending.LoadOrStore(id, true); found {
			return 0, run.ErrChanged
		}
	}
	if b.frozen.Load() || b.minority.Load() {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	revision, err := b.Bus.Put(ctx, id, e, ttl)
	if err == nil && e.State == wire.StateCompleted {
		b.ends.Add(1)
	}
	return revision, err
}
