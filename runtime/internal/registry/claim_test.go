package registry_test

import (
	"context"
	"log/slog"
	"sync"
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

// callerContext is a context that counts the functions that wait for its end.
type callerContext struct {
	context.Context
	done    chan struct{}
	waiting int
}

func (c *callerContext) Done() <-chan struct{} { return c.done }

// AfterFunc is called by package context.
func (c *callerContext) AfterFunc(func()) func() bool {
	c.waiting++
	return func() bool {
		c.waiting--
		return true
	}
}

// A run is separated from the context of its caller when it ends or is released, and its own
// context ends. Release does nothing after Start.
func TestSeparatedContexts(t *testing.T) {
	g := registry.New(registry.Config{})
	ctx := &callerContext{Context: t.Context(), done: make(chan struct{})}
	released, err := g.Claim(ctx, ids.Random())
	require.NoError(t, err)
	ended, err := g.Claim(ctx, ids.Random())
	require.NoError(t, err)
	require.Equal(t, 2, ctx.waiting)
	require.NoError(t, ended.Start())
	ended.Release()
	require.NoError(t, ended.Context().Err())
	_, err = g.Claim(ctx, ended.ID())
	require.ErrorIs(t, err, registry.ErrConflict)

	released.Release()
	require.Error(t, released.Context().Err())
	require.Equal(t, 1, ctx.waiting)
	ended.Finish(nil, nil)
	require.Equal(t, 0, ctx.waiting)
}

// A claim that fails while the entries are renewed stores nothing. The id can be claimed later.
func TestAFailedClaimDuringARenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := run.NewMemoryBus()
		other := registry.New(registry.Config{Bus: memory})
		defer other.Close()
		first, err := other.Claim(t.Context(), ids.Random())
		require.NoError(t, err)

		var logs logtest.Buffer
		renewing := make(chan struct{})
		begin := sync.OnceFunc(func() { close(renewing) })
		held := newHeldBus(memory)
		held.beforePut = func(id run.ID, e run.Claim) {
			switch {
			case id == first.ID():
				<-renewing
			case e.Revision != 0:
				begin()
			}
		}
		owner := registry.New(registry.Config{Bus: held, Logger: slog.New(slog.NewTextHandler(&logs, nil))})
		defer owner.Close()
		renewed := started(t, owner)
		<-time.After(4 * time.Second)
		_, err = owner.Claim(t.Context(), first.ID())
		require.ErrorIs(t, err, registry.ErrConflict)
		renewed.Finish(nil, nil)
		synctest.Wait()
		require.Equal(t, 1, held.putsOf(first.ID()))
		require.Empty(t, logs.String())

		first.Release()
		again, err := owner.Claim(t.Context(), first.ID())
		require.NoError(t, err)
		again.Release()
	})
}

// A run that is released while the entries are renewed leaves no entry, even if its renewal is
// next.
func TestAReleaseDuringARenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := run.NewMemoryBus()
		renewals, released := make(chan run.ID, 17), make(chan struct{})
		held := newHeldBus(memory)
		held.beforePut = func(id run.ID, e run.Claim) {
			if e.Revision != 0 {
				renewals <- id
				<-released
			}
		}
		g := registry.New(registry.Config{Bus: held})
		defer g.Close()
		waiting := map[run.ID]*registry.Run{}
		for range cap(renewals) {
			r, err := g.Claim(t.Context(), ids.Random())
			require.NoError(t, err)
			waiting[r.ID()] = r
		}
		for len(waiting) > 1 {
			id := <-renewals
			defer waiting[id].Release()
			delete(waiting, id)
		}
		for id, r := range waiting {
			r.Release()
			close(released)
			synctest.Wait()
			e, err := memory.Get(t.Context(), id)
			require.NoError(t, err)
			require.Zero(t, e)
		}
	})
}

// A run that is released deletes its entry although another replica has cancelled it, of which the
// notification was lost.
func TestAReleaseAfterALostNotification(t *testing.T) {
	bus := run.NewMemoryBus()
	g := registry.New(registry.Config{Bus: bus})
	defer g.Close()
	r, err := g.Claim(t.Context(), ids.Random())
	require.NoError(t, err)
	putCancel(t, bus, r.ID())
	r.Release()
	e, err := bus.Get(t.Context(), r.ID())
	require.NoError(t, err)
	require.Zero(t, e)
}

// A run that is released does not delete the entry of another run, which began after the bus had
// lost its own.
func TestAReleaseAfterALoss(t *testing.T) {
	bus := run.NewMemoryBus()
	one, two := registry.New(registry.Config{Bus: bus}), registry.New(registry.Config{Bus: bus})
	defer one.Close()
	defer two.Close()
	lost, err := one.Claim(t.Context(), ids.Random())
	require.NoError(t, err)
	e, err := bus.Get(t.Context(), lost.ID())
	require.NoError(t, err)
	require.NoError(t, bus.Delete(t.Context(), lost.ID(), e.Revision))
	r, err := two.Claim(t.Context(), lost.ID())
	require.NoError(t, err)
	lost.Release()
	_, err = one.Cancel(r.ID(), wire.ReasonClientRequest)
	require.NoError(t, err)
	require.Error(t, r.Context().Err())
	r.Release()
}
