package bustest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/runtime/internal/registry"
	"github.com/seed93082962/agenthost/runtime/run"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// replica returns a registry on a bus.
func replica(t *testing.T, bus run.Bus) *registry.Registry {
	t.Helper()
	g := registry.New(registry.Config{Bus: bus})
	t.Cleanup(g.Close)
	return g
}

// start starts a run.
func start(t *testing.T, g *registry.Registry) *registry.Run {
	t.Helper()
	r, err := g.Claim(t.Context(), ids.Random())
	require.NoError(t, err)
	require.NoError(t, r.Start())
	t.Cleanup(func() { _, _ = r.Finish(nil, nil) })
	return r
}

func cancelAnywhere(t *testing.T, open func(*testing.T) run.Bus) {
	owner, other, third := replica(t, open(t)), replica(t, open(t)), replica(t, open(t))
	for _, first := range []*registry.Registry{other, owner} {
		r := start(t, owner)
		id := r.ID().String()
		response, err := first.Cancel(r.ID(), wire.ReasonClientRequest)
		require.NoError(t, err)
		require.Equal(t, wire.CancelResponse{RunID: id, State: wire.StateCancelling}, response, "the first one has no reason")
		select {
		case <-r.Context().Done():
		case <-time.After(Limit):
			require.Fail(t, "the run is not cancelled")
		}

		require.Equal(t, error(wire.ReasonClientRequest), context.Cause(r.Context()))
		for _, g := range []*registry.Registry{owner, other, third} {
			response, err = g.Cancel(r.ID(), wire.ReasonClientRequest)
			require.NoError(t, err)
			require.Equal(t, wire.CancelResponse{RunID: id, State: wire.StateCancelling, Reason: wire.ReasonClientRequest}, response)
		}

		state, reason := r.Finish(nil, nil)
		require.Equal(t, wire.StateCancelled, state, "a cancelled run never completes")
		require.Equal(t, wire.ReasonClientRequest, reason)
		for _, g := range []*registry.Registry{owner, other, third} {
			response, err = g.Cancel(r.ID(), wire.ReasonClientRequest)
			require.NoError(t, err)
			require.Equal(t, wire.CancelResponse{RunID: id, State: wire.StateCancelled, Reason: wire.ReasonClientRequest}, response)
		}
	}

	for want, cause := range map[wire.State]error{wire.StateCompleted: nil, wire.StateFailed: errors.New("failed")} {
		r := start(t, owner)
		state, _ := r.Finish(cause, nil)
		require.Equal(t, want, state)
		for _, g := range []*registry.Registry{owner, other, third} {
			response, err := g.Cancel(r.ID(), wire.ReasonClientRequest)
			require.ErrorIs(t, err, registry.ErrEnded)
			require.Equal(t, wire.CancelResponse{RunID: r.ID().String(), State: want}, response)
		}

		state, _ = r.Finish(errors.New("again"), nil)
		require.Equal(t, want, state, "the first end stays")
	}

	_, err := other.Cancel(ids.Random(), wire.ReasonClientRequest)
	require.ErrorIs(t, err, registry.ErrNotFound)
}

func conflicts(t *testing.T, open func(*testing.T) run.Bus) {
	one, two := replica(t, open(t)), replica(t, open(t))
	r := start(t, one)
	_, err := two.Claim(t.Context(), r.ID())
	require.ErrorIs(t, err, registry.ErrConflict)
	_, _ = r.Finish(nil, nil)
	_, err = two.Claim(t.Context(), r.ID())
	require.ErrorIs(t, err, registry.ErrConflict, "its state is stored")

	id := ids.Random()
	var mu sync.Mutex
	var won []*registry.Run
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			if r, err := []*registry.Registry{one, two}[i%2].Claim(t.Context(), id); err == nil {
				mu.Lock()
				defer mu.Unlock()
				won = append(won, r)
			}
		})
	}

	all.Wait()
	require.Len(t, won, 1)
	won[0].Release()
}

func release(t *testing.T, open func(*testing.T) run.Bus) {
	one, two, id := replica(t, open(t)), replica(t, open(t)), ids.Random()
	for _, g := range []*registry.Registry{one, two, two, one} {
		r, err := g.Claim(t.Context(), id)
		require.NoError(t, err)
		if g == two {
			_, err = one.Cancel(id, wire.ReasonClientRequest)
			require.NoError(t, err)
		}

		r.Release()
		_, err = two.Cancel(id, wire.ReasonClientRequest)
		require.ErrorIs(t, err, registry.ErrNotFound, "a run that never started leaves nothing")
	}
}

// faulty is a bus whose notifications are lost, or that cannot be reached.
type faulty struct {
	run.Bus
	deaf, away atomic.Bool
}

var errAway = errors.New("the bus is away")

func (b *faulty) Get(ctx context.Context, id run.ID) (run.Claim, error) {
	if b.away.Load() {
		return run.Claim{}, errAway
	}

	return b.Bus.Get(ctx, id)
}

func (b *faulty) Put(ctx context.Context, id run.ID, e run.Claim, ttl time.Duration) (uint64, error) {
	if b.away.Load() {
		return 0, errAway
	}

	return b.Bus.Put(ctx, id, e, ttl)
}

func (b *faulty) Notify(ctx context.Context, owner, id run.ID) error {
	if b.deaf.Load() || b.away.Load() {
		return errAway
	}

	return b.Bus.Notify(ctx, owner, id)
}

// A cancel whose notification is lost takes effect at the next renewal, and at the end of the run.
func lostNotification(t *testing.T, open func(*testing.T) run.Bus) {
	lossy := &faulty{Bus: open(t)}
	lossy.deaf.Store(true)
	owner, other := replica(t, open(t)), replica(t, lossy)
	renewed, ended := start(t, owner), start(t, owner)
	for _, r := range []*registry.Run{renewed, ended} {
		response, err := other.Cancel(r.ID(), wire.ReasonClientRequest)
		require.NoError(t, err)
		require.Equal(t, wire.StateCancelling, response.State)
	}

	require.NoError(t, ended.Context().Err())
	state, reason := ended.Finish(nil, nil)
	require.Equal(t, wire.StateCancelled, state)
	require.Equal(t, wire.ReasonClientRequest, reason)
	Await(t, func() bool { return renewed.Context().Err() != nil })
	require.Equal(t, error(wire.ReasonClientRequest), context.Cause(renewed.Context()))

	repeated := start(t, owner)
	_, err := other.Cancel(repeated.ID(), wire.ReasonClientRequest)
	require.NoError(t, err)
	lossy.deaf.Store(false)
	_, err = other.Cancel(repeated.ID(), wire.ReasonClientRequest)
	require.NoError(t, err)
	require.Error(t, repeated.Context().Err(), "a repeated cancel notifies the owner again")
}

// The responses to cancels agree with the end of the run, whichever comes first.
func raceWithEnd(t *testing.T, open func(*testing.T) run.Bus) {
	owner, other, third := replica(t, open(t)), replica(t, open(t)), replica(t, open(t))
	for range 100 {
		r := start(t, owner)
		var all sync.WaitGroup
		var mu sync.Mutex
		accepted, rejected := 0, 0
		for _, g := range []*registry.Registry{owner, other, third} {
			all.Go(func() {
				response, err := g.Cancel(r.ID(), wire.ReasonClientRequest)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					accepted++
				case errors.Is(err, registry.ErrEnded) && response.State == wire.StateCompleted:
					rejected++
				default:
					t.Error(response, err)
				}
			})
		}

		var state wire.State
		all.Go(func() { state, _ = r.Finish(nil, nil) })
		all.Wait()
		if state == wire.StateCompleted {
			require.Equal(t, 3, rejected)
		} else {
			require.Equal(t, 3, accepted)
		}
	}
}

func firstReason(t *testing.T, open func(*testing.T) run.Bus) {
	owner, other := replica(t, open(t)), replica(t, open(t))
	for _, reason := range []wire.Reason{wire.ReasonDisconnect, wire.ReasonShutdown} {
		r := start(t, owner)
		r.Cancel(reason)
		response, err := owner.Cancel(r.ID(), wire.ReasonClientRequest)
		require.NoError(t, err)
		require.Equal(t, reason, response.Reason)
		response, err = other.Cancel(r.ID(), wire.ReasonClientRequest)
		require.NoError(t, err)
		require.Equal(t, reason, response.Reason)
		_, last := r.Finish(nil, nil)
		require.Equal(t, reason, last)

		r = start(t, owner)
		_, err = other.Cancel(r.ID(), wire.ReasonClientRequest)
		require.NoError(t, err)
		r.Cancel(reason)
		_, last = r.Finish(nil, nil)
		require.Equal(t, wire.ReasonClientRequest, last)
	}
}

func terminalExpiry(t *testing.T, open func(*testing.T) run.Bus) {
	owner := registry.New(registry.Config{Bus: open(t), TerminalTTL: time.Second})
	t.Cleanup(owner.Close)
	other := replica(t, open(t))
	r := start(t, owner)
	_, _ = r.Finish(nil, nil)
	_, err := other.Cancel(r.ID(), wire.ReasonClientRequest)
	require.ErrorIs(t, err, registry.ErrEnded)
	for _, g := range []*registry.Registry{other, owner} {
		Await(t, func() bool {
			_, err := g.Cancel(r.ID(), wire.ReasonClientRequest)
			return errors.Is(err, registry.ErrNotFound)
		})
	}

	again, err := other.Claim(t.Context(), r.ID())
	require.NoError(t, err, "the id may be used again")
	again.Release()
}

// Runs continue without the bus, and are known to the other replicas when it is back.
func outage(t *testing.T, open func(*testing.T) run.Bus) {
	bus := &faulty{Bus: open(t)}
	owner, other := replica(t, bus), replica(t, open(t))
	before, elsewhere := start(t, owner), start(t, other)
	bus.away.Store(true)

	within := start(t, owner)
	_, err := owner.Cancel(elsewhere.ID(), wire.ReasonClientRequest)
	require.ErrorIs(t, err, run.ErrUnavailable)
	require.NoError(t, elsewhere.Context().Err())
	require.False(t, owner.Available())
	response, err := owner.Cancel(before.ID(), wire.ReasonClientRequest)
	require.NoError(t, err, "the own runs can be cancelled")
	require.Equal(t, wire.StateCancelling, response.State)
	require.Error(t, before.Context().Err())

	bus.away.Store(false)
	Await(t, owner.Available)
	Await(t, func() bool {
		_, err := other.Cancel(within.ID(), wire.ReasonClientRequest)
		return err == nil
	})
	require.Error(t, within.Context().Err())
	_, err = owner.Cancel(elsewhere.ID(), wire.ReasonClientRequest)
	require.NoError(t, err)
	require.Error(t, elsewhere.Context().Err())
}

// A cancel that was stored before an outage wins, although the run ends during the outage.
func cancelBeforeOutage(t *testing.T, open func(*testing.T) run.Bus) {
	bus, lossy := &faulty{Bus: open(t)}, &faulty{Bus: open(t)}
	lossy.deaf.Store(true)
	owner, other := replica(t, bus), replica(t, lossy)
	r := start(t, owner)
	_, err := other.Cancel(r.ID(), wire.ReasonClientRequest)
	require.NoError(t, err)
	bus.away.Store(true)
	ended := make(chan wire.State)
	go func() {
		state, _ := r.Finish(nil, nil)
		ended <- state
	}()
	Await(t, func() bool { return !owner.Available() })
	bus.away.Store(false)
	require.Equal(t, wire.StateCancelled, <-ended)
}

// An end does not wait for the bus any longer than 5 s, and is stored later.
func longOutage(t *testing.T, open func(*testing.T) run.Bus) {
	bus := &faulty{Bus: open(t)}
	owner, other := replica(t, bus), replica(t, open(t))
	first, second := start(t, owner), start(t, owner)
	bus.away.Store(true)
	state, _ := first.Finish(nil, nil)
	require.Equal(t, wire.StateCompleted, state)
	state, _ = second.Finish(nil, nil)
	require.Equal(t, wire.StateCompleted, state)
	_, err := owner.Cancel(first.ID(), wire.ReasonClientRequest)
	require.ErrorIs(t, err, registry.ErrEnded)
	_, err = other.Cancel(second.ID(), wire.ReasonClientRequest)
	require.NoError(t, err, "the other replica does not know it yet")
	bus.away.Store(false)
	for _, r := range []*registry.Run{first, second} {
		Await(t, func() bool {
			_, err := other.Cancel(r.ID(), wire.ReasonClientRequest)
			return errors.Is(err, registry.ErrEnded)
		})
	}
}

func manyRuns(t *testing.T, open func(*testing.T) run.Bus) {
	owner, other := replica(t, open(t)), replica(t, open(t))
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() {
			r := start(t, owner)
			if _, err := other.Cancel(r.ID(), wire.ReasonClientRequest); err != nil {
				t.Error(err)
			}

			if state, _ := r.Finish(nil, nil); state != wire.StateCancelled {
				t.Error(state)
			}
		})
	}

	all.Wait()
}
