package registry_test

import (
	"context"
	"log/slog"
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
	"github.com/seed93082962/agenthost/runtime/wire"
)

// heldBus is a bus that calls its functions before a Get and a Put, and counts the calls of Put.
type heldBus struct {
	run.Bus
	beforeGet func(id run.ID) error
	beforePut func(id run.ID, e run.Claim)
	newer     bool // malformed entries are those of a newer version

	mu   sync.Mutex // guards puts
	puts map[run.ID]int
}

// putsOf returns how often the entry of a run was put.
func (b *heldBus) putsOf(id run.ID) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.puts[id]
}

func newHeldBus(bus run.Bus) *heldBus {
	return &heldBus{
		Bus: bus, puts: map[run.ID]int{},
		beforeGet: func(run.ID) error { return nil }, beforePut: func(run.ID, run.Claim) {},
	}
}

func (b *heldBus) Get(ctx context.Context, id run.ID) (run.Claim, error) {
	if err := b.beforeGet(id); err != nil {
		e, _ := b.Bus.Get(ctx, id)
		if b.newer {
			e.Revision = 0
		}
		return run.Claim{Revision: e.Revision}, err
	}
	return b.Bus.Get(ctx, id)
}

func (b *heldBus) Put(ctx context.Context, id run.ID, e run.Claim, ttl time.Duration) (uint64, error) {
	b.mu.Lock()
	b.puts[id]++
	b.mu.Unlock()
	b.beforePut(id, e)
	return b.Bus.Put(ctx, id, e, ttl)
}

// putCancel stores a cancel as another replica does, without a notification.
func putCancel(t *testing.T, bus run.Bus, id run.ID) {
	t.Helper()
	e, err := bus.Get(t.Context(), id)
	require.NoError(t, err)
	e.State, e.Reason = wire.StateCancelling, wire.ReasonClientRequest
	_, err = bus.Put(t.Context(), id, e, time.Minute)
	require.NoError(t, err)
}

// A cancel by the owner is known to the other replicas immediately.
func TestOwnCancelsAreStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := run.NewMemoryBus()
		owner, other := registry.New(registry.Config{Bus: bus}), registry.New(registry.Config{Bus: bus})
		defer owner.Close()
		defer other.Close()
		ctx, leave := context.WithCancel(t.Context())
		left, err := owner.Claim(ctx, ids.Random())
		require.NoError(t, err)
		require.NoError(t, left.Start())
		cancelled := started(t, owner)
		leave()
		cancelled.Cancel(wire.ReasonShutdown)
		synctest.Wait()
		for r, reason := range map[*registry.Run]wire.Reason{left: wire.ReasonDisconnect, cancelled: wire.ReasonShutdown} {
			e, err := bus.Get(t.Context(), r.ID())
			require.NoError(t, err)
			require.Equal(t, wire.StateCancelling, e.State)
			require.Equal(t, reason, e.Reason)
			state, _ := r.Finish(nil, nil)
			require.Equal(t, wire.StateCancelled, state)
			response, err := other.Cancel(r.ID(), wire.ReasonClientRequest)
			require.NoError(t, err)
			require.Equal(t, wire.CancelResponse{RunID: r.ID().String(), State: wire.StateCancelled, Reason: reason}, response)
		}
	})
}

// A run stores its entry when it is claimed and when it ends, every five seconds in between, and
// for the first cancel.
func TestPutsOfARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := newHeldBus(run.NewMemoryBus())
		g := registry.New(registry.Config{Bus: bus})
		defer g.Close()
		short, long, cancelled := started(t, g), started(t, g), started(t, g)
		short.Finish(nil, nil)
		for range 3 {
			_, err := g.Cancel(cancelled.ID(), wire.ReasonClientRequest)
			require.NoError(t, err)
		}
		cancelled.Finish(nil, nil)
		synctest.Wait()
		require.Equal(t, 2, bus.putsOf(short.ID()))
		<-time.After(12 * time.Second)
		long.Finish(nil, nil)
		<-time.After(time.Minute)
		require.Equal(t, 2, bus.putsOf(short.ID()))
		require.Equal(t, 4, bus.putsOf(long.ID()))
		require.Equal(t, 3, bus.putsOf(cancelled.ID()))
	})
}

// A cancel by another replica takes effect although its notification arrives while the run ends:
// the owner has accepted it by reading it.
func TestACancelReadDuringTheEnd(t *testing.T) {
	bus, held := run.NewMemoryBus(), newHeldBus(nil)
	held.Bus = bus
	reading, read := make(chan struct{}), make(chan struct{})
	held.beforeGet = func(run.ID) error {
		close(reading)
		<-read
		return nil
	}
	owner, other := registry.New(registry.Config{Bus: held}), registry.New(registry.Config{Bus: bus})
	defer owner.Close()
	defer other.Close()
	r := started(t, owner)
	cancelled, ended := make(chan error, 1), make(chan wire.State, 1)
	go func() {
		_, err := other.Cancel(r.ID(), wire.ReasonClientRequest)
		cancelled <- err
	}()
	<-reading
	go func() {
		state, _ := r.Finish(nil, nil)
		ended <- state
	}()
	<-r.Context().Done()
	close(read)
	require.NoError(t, <-cancelled)
	require.Equal(t, wire.StateCancelled, <-ended)
	response, err := owner.Cancel(r.ID(), wire.ReasonDisconnect)
	require.NoError(t, err)
	require.Equal(t, wire.ReasonClientRequest, response.Reason)
}

// A cancel at the owner while the end of the run is stored waits for the end.
func TestACancelWhileTheEndIsStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held, stored := newHeldBus(run.NewMemoryBus()), make(chan struct{})
		held.beforePut = func(_ run.ID, e run.Claim) {
			if e.State != "" {
				<-stored
			}
		}
		g := registry.New(registry.Config{Bus: held})
		defer g.Close()
		r := started(t, g)
		go r.Finish(errFailed, nil)
		synctest.Wait()
		response := make(chan wire.CancelResponse, 1)
		go func() {
			last, _ := g.Cancel(r.ID(), wire.ReasonClientRequest)
			response <- last
		}()
		synctest.Wait()
		require.Empty(t, response)
		close(stored)
		require.Equal(t, wire.StateFailed, (<-response).State)
	})
}

// An entry that cannot be read is replaced by the owner of the run. Another replica cannot cancel
// the run until then, but others.
func TestMalformedEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus, held := run.NewMemoryBus(), newHeldBus(nil)
		held.Bus = bus
		var malformed atomic.Pointer[run.ID]
		held.beforeGet = func(id run.ID) error {
			if m := malformed.Load(); m != nil && id == *m {
				return run.ErrMalformed
			}
			return nil
		}
		cut := &cutBus{Bus: held}
		owner, other := registry.New(registry.Config{Bus: cut}), registry.New(registry.Config{Bus: held})
		defer owner.Close()
		defer other.Close()
		cut.away.Store(true)
		damaged := started(t, owner)
		_, err := bus.Put(t.Context(), damaged.ID(), run.Claim{State: "unknown"}, time.Minute)
		require.NoError(t, err)
		cut.away.Store(false)
		malformed.Store(new(damaged.ID()))
		_, err = other.Cancel(damaged.ID(), wire.ReasonClientRequest)
		require.ErrorIs(t, err, run.ErrUnavailable)
		require.True(t, other.Available())
		<-time.After(6 * time.Second)
		whole := started(t, owner)
		_, err = other.Cancel(whole.ID(), wire.ReasonClientRequest)
		require.NoError(t, err)
		e, err := bus.Get(t.Context(), damaged.ID())
		require.NoError(t, err)
		require.Empty(t, e.State, "the owner has replaced it")
		require.NoError(t, damaged.Context().Err())
		require.True(t, owner.Available())
		damaged.Finish(nil, nil)
		whole.Finish(nil, nil)
	})
}

// The end of a run does not wait for an entry of a newer version, which is not replaced.
func TestEntriesOfANewerVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus, held := run.NewMemoryBus(), newHeldBus(nil)
		held.Bus, held.newer = bus, true
		held.beforeGet = func(run.ID) error { return run.ErrMalformed }
		g := registry.New(registry.Config{Bus: held})
		defer g.Close()
		r := started(t, g)
		putCancel(t, bus, r.ID())
		stored, err := bus.Get(t.Context(), r.ID())
		require.NoError(t, err)
		begin := time.Now()
		state, _ := r.Finish(nil, nil)
		require.Equal(t, wire.StateCompleted, state)
		require.Equal(t, begin, time.Now())
		require.True(t, g.Available())
		<-time.After(30 * time.Second)
		e, err := bus.Get(t.Context(), r.ID())
		require.NoError(t, err)
		require.Equal(t, stored, e)
	})
}

// Close ends the notifications, and waits for the renewal.
func TestCloseWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logs logtest.Buffer
		bus, held, renewed := run.NewMemoryBus(), newHeldBus(nil), make(chan struct{})
		held.Bus = bus
		held.beforePut = func(_ run.ID, e run.Claim) {
			if e.Revision != 0 {
				<-renewed
			}
		}
		g := registry.New(registry.Config{Bus: held, Logger: slog.New(slog.NewTextHandler(&logs, nil))})
		r := started(t, g)
		e, err := bus.Get(t.Context(), r.ID())
		require.NoError(t, err)
		require.NoError(t, bus.Notify(t.Context(), e.Owner, ids.Random()))
		<-time.After(6 * time.Second)
		closed := make(chan struct{})
		go func() {
			g.Close()
			close(closed)
		}()
		synctest.Wait()
		require.Error(t, bus.Notify(t.Context(), e.Owner, ids.Random()))
		select {
		case <-closed:
			require.Fail(t, "the renewal is in progress")
		default:
		}
		close(renewed)
		<-closed
		r.Finish(nil, nil)
		require.Empty(t, logs.String())
	})
}

// A notification that fails is a debug record: the owner finds the cancel when it renews the entry.
func TestALostNotification(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logs logtest.Buffer
		bus := run.NewMemoryBus()
		owner := registry.New(registry.Config{Bus: bus})
		other := registry.New(registry.Config{Bus: bus, Logger: slog.New(slog.NewTextHandler(&logs, &slog.HandlerOptions{Level: slog.LevelDebug}))})
		defer other.Close()
		known, lost := started(t, owner), started(t, owner)
		_, err := other.Cancel(known.ID(), wire.ReasonClientRequest)
		require.NoError(t, err)
		require.Empty(t, logs.String())
		owner.Close()
		_, err = other.Cancel(lost.ID(), wire.ReasonClientRequest)
		require.NoError(t, err)
		require.Contains(t, logs.String(), "notify the owner of a run")
		require.True(t, other.Available())
		known.Finish(nil, nil)
		lost.Finish(nil, nil)
	})
}

// An entry that other replicas change is read again. A cancel by another replica fails if that
// occurs eight times, and the end of a run is stored later.
func TestChangingEntries(t *testing.T) {
	for name, test := range map[string]struct {
		changes int
		cancel  error
	}{
		"few": {7, nil}, "many": {8, run.ErrUnavailable}, "more": {20, run.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bus, held := run.NewMemoryBus(), newHeldBus(nil)
				held.Bus = bus
				owner, other := registry.New(registry.Config{Bus: held}), registry.New(registry.Config{Bus: held})
				defer owner.Close()
				defer other.Close()
				cancelled, ended := started(t, owner), started(t, owner)
				left := test.changes
				held.beforePut = func(id run.ID, _ run.Claim) {
					if left == 0 {
						return
					}
					left--
					e, err := bus.Get(t.Context(), id)
					require.NoError(t, err)
					_, err = bus.Put(t.Context(), id, e, time.Minute)
					require.NoError(t, err)
				}
				response, err := other.Cancel(cancelled.ID(), wire.ReasonClientRequest)
				require.ErrorIs(t, err, test.cancel)
				require.Equal(t, err == nil, response.State == wire.StateCancelling)
				require.Equal(t, err == nil, cancelled.Context().Err() != nil)
				left = test.changes
				state, _ := ended.Finish(nil, nil)
				require.Equal(t, wire.StateCompleted, state)
				_, err = other.Cancel(ended.ID(), wire.ReasonClientRequest)
				require.ErrorIs(t, err, registry.ErrEnded)
				cancelled.Finish(nil, nil)
			})
		})
	}
}

// A cancel that cannot be stored fails, and the run continues.
func TestACancelOnAFullBus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := run.NewMemoryBus()
		cut := &cutBus{Bus: bus}
		owner, other := registry.New(registry.Config{Bus: bus}), registry.New(registry.Config{Bus: cut})
		defer owner.Close()
		defer other.Close()
		r := started(t, owner)
		cut.full.Store(true)
		_, err := other.Cancel(r.ID(), wire.ReasonClientRequest)
		require.ErrorIs(t, err, run.ErrUnavailable)
		require.ErrorIs(t, err, errCut)
		require.NoError(t, r.Context().Err())
		state, _ := r.Finish(nil, nil)
		require.Equal(t, wire.StateCompleted, state)
	})
}
