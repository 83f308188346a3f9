package registry_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/runtime/internal/registry"
	"github.com/seed93082962/agenthost/runtime/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errFailed = errors.New("the run failed")

func started(t *testing.T, g *registry.Registry) *registry.Run {
	t.Helper()
	r, err := g.Claim(t.Context(), ids.Random())
	require.NoError(t, err)
	require.NoError(t, r.Start())
	return r
}

func TestARunEndsInTheStateOfItsError(t *testing.T) {
	for state, err := range map[wire.State]error{wire.StateCompleted: nil, wire.StateFailed: errFailed} {
		t.Run(string(state), func(t *testing.T) {
			g := registry.New(registry.Config{})
			r := started(t, g)
			require.NoError(t, r.Context().Err())
			got, reason := r.Finish(err, nil)
			require.Equal(t, state, got)
			require.Empty(t, reason)
			require.Error(t, r.Context().Err(), "the context of an ended run is over")
			answer, cancelErr := g.Cancel(r.ID(), wire.ReasonClientRequest)
			require.ErrorIs(t, cancelErr, registry.ErrEnded)
			require.Equal(t, wire.CancelResponse{RunID: r.ID().String(), State: state}, answer)
			r.Cancel(wire.ReasonShutdown)
			got, reason = r.Finish(errFailed, nil)
			require.Equal(t, state, got, "the first end stays")
			require.Empty(t, reason)
		})
	}
}

func TestCancelResponses(t *testing.T) {
	g := registry.New(registry.Config{})
	r := started(t, g)
	id := r.ID().String()

	answer, err := g.Cancel(r.ID(), wire.ReasonClientRequest)
	require.NoError(t, err)
	require.Equal(t, wire.CancelResponse{RunID: id, State: wire.StateCancelling}, answer, "the first time without a reason")
	require.Equal(t, error(wire.ReasonClientRequest), context.Cause(r.Context()))

	answer, err = g.Cancel(r.ID(), wire.ReasonClientRequest)
	require.NoError(t, err)
	require.Equal(t, wire.CancelResponse{RunID: id, State: wire.StateCancelling, Reason: wire.ReasonClientRequest}, answer)

	state, reason := r.Finish(nil, nil)
	require.Equal(t, wire.StateCancelled, state, "a cancelled run never completes")
	require.Equal(t, wire.ReasonClientRequest, reason)
	answer, err = g.Cancel(r.ID(), wire.ReasonClientRequest)
	require.NoError(t, err)
	require.Equal(t, wire.CancelResponse{RunID: id, State: wire.StateCancelled, Reason: wire.ReasonClientRequest}, answer)

	_, err = g.Cancel(ids.Random(), wire.ReasonClientRequest)
	require.ErrorIs(t, err, registry.ErrNotFound)
}

func TestTheFirstReasonWins(t *testing.T) {
	reasons := []wire.Reason{wire.ReasonClientRequest, wire.ReasonDisconnect, wire.ReasonShutdown}
	for _, first := range reasons {
		for _, second := range reasons {
			t.Run(fmt.Sprintf("%s before %s", first, second), func(t *testing.T) {
				g := registry.New(registry.Config{})
				r := started(t, g)
				r.Cancel(first)
				r.Cancel(second)
				require.Equal(t, error(first), context.Cause(r.Context()))
				state, reason := r.Finish(errFailed, nil)
				require.Equal(t, wire.StateCancelled, state)
				require.Equal(t, first, reason)
				answer, err := g.Cancel(r.ID(), second)
				require.NoError(t, err)
				require.Equal(t, first, answer.Reason)
			})
		}
	}
}

func TestTheEndOfTheCallersContextIsADisconnect(t *testing.T) {
	g := registry.New(registry.Config{})
	type key struct{}
	ctx, leave := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
	r, err := g.Claim(ctx, ids.Random())
	require.NoError(t, err)
	require.NoError(t, r.Start())
	ended, err := g.Claim(ctx, ids.Random())
	require.NoError(t, err)
	require.NoError(t, ended.Start())
	ended.Finish(nil, nil)

	leave()
	<-r.Context().Done()
	require.Equal(t, error(wire.ReasonDisconnect), context.Cause(r.Context()))
	require.Equal(t, "value", r.Context().Value(key{}))
	state, reason := ended.Finish(nil, nil)
	require.Equal(t, wire.StateCompleted, state)
	require.Empty(t, reason)
	r.Finish(nil, nil)
}

func TestEndedRunsExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := registry.New(registry.Config{})
		r, long := started(t, g), started(t, g)
		<-time.After(time.Hour) // an active run never expires, and its time counts from the end
		r.Finish(nil, nil)

		<-time.After(5*time.Minute - time.Nanosecond)
		_, err := g.Cancel(r.ID(), wire.ReasonClientRequest)
		require.ErrorIs(t, err, registry.ErrEnded)
		_, err = g.Claim(t.Context(), r.ID())
		require.ErrorIs(t, err, registry.ErrConflict)

		<-time.After(time.Nanosecond)
		_, err = g.Cancel(r.ID(), wire.ReasonClientRequest)
		require.ErrorIs(t, err, registry.ErrNotFound)
		again, err := g.Claim(t.Context(), r.ID())
		require.NoError(t, err, "the id may be used again")
		again.Release()

		_, err = g.Cancel(long.ID(), wire.ReasonClientRequest)
		require.NoError(t, err)
		long.Finish(nil, nil)
	})
}

// Each ended run is known for its five minutes, although the registry forgets them together.
func TestEndedRunsExpireOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := registry.New(registry.Config{})
		var all []*registry.Run
		for range 12 {
			<-time.After(time.Minute)
			all = append(all, started(t, g))
			all[len(all)-1].Finish(nil, nil)
			for i, r := range all {
				want := registry.ErrNotFound
				if len(all)-i <= 5 {
					want = registry.ErrEnded
				}
				_, err := g.Cancel(r.ID(), wire.ReasonClientRequest)
				require.ErrorIs(t, err, want)
			}
		}
	})
}

// A registry without runs is drained immediately. Close without a bus does nothing.
func TestDrainOfNoRuns(t *testing.T) {
	g := registry.New(registry.Config{})
	require.True(t, g.Available())
	require.False(t, g.Draining())
	for range 2 {
		require.NoError(t, g.Drain(t.Context()))
	}
	require.True(t, g.Draining())
	g.Close()
}

// The memory of a registry is that of the runs that ended within twice the time.
func TestMemoryOfEndedRunsIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := registry.New(registry.Config{TerminalTTL: time.Second})
		end := func(waves int) uint64 {
			for range waves {
				for range 2000 {
					started(t, g).Finish(nil, nil)
				}
				<-time.After(time.Second)
			}
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			return m.HeapAlloc
		}
		few := end(3)
		many := end(20)
		require.Less(t, many, few+(1<<20), "40,000 runs have ended since")
		runtime.KeepAlive(g)
	})
}

func TestTerminalTTLIsConfigurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := registry.New(registry.Config{TerminalTTL: time.Second})
		var runs []*registry.Run
		for range 3000 {
			runs = append(runs, started(t, g))
			runs[len(runs)-1].Finish(errFailed, nil)
		}
		<-time.After(time.Second)
		for _, r := range runs {
			_, err := g.Cancel(r.ID(), wire.ReasonClientRequest)
			require.ErrorIs(t, err, registry.ErrNotFound)
		}
		last := started(t, g)
		last.Finish(errFailed, nil)
		_, err := g.Cancel(last.ID(), wire.ReasonClientRequest)
		require.ErrorIs(t, err, registry.ErrEnded)
	})
}

func TestAnIDIsForOneRunAtATime(t *testing.T) {
	g := registry.New(registry.Config{})
	id := ids.Random()
	var mu sync.Mutex
	var won []*registry.Run
	var all sync.WaitGroup
	for range 32 {
		all.Go(func() {
			if r, err := g.Claim(t.Context(), id); err == nil {
				mu.Lock()
				defer mu.Unlock()
				won = append(won, r)
			}
		})
	}
	all.Wait()
	require.Len(t, won, 1)
	won[0].Release()
	_, err := g.Cancel(id, wire.ReasonClientRequest)
	require.ErrorIs(t, err, registry.ErrNotFound, "a run that never started leaves nothing")
	r, err := g.Claim(t.Context(), id)
	require.NoError(t, err)
	won[0].Release() // of the former run: it must not touch this one
	_, err = g.Claim(t.Context(), id)
	require.ErrorIs(t, err, registry.ErrConflict)
	r.Release()
}

func TestConcurrencyIsLimited(t *testing.T) {
	g := registry.New(registry.Config{MaxActive: 2})
	first, second := started(t, g), started(t, g)
	third, err := g.Claim(t.Context(), ids.Random())
	require.NoError(t, err)
	require.ErrorIs(t, third.Start(), registry.ErrTooMany)
	first.Finish(nil, nil)
	require.NoError(t, third.Start())
	second.Finish(nil, nil)
	third.Finish(nil, nil)
}

func TestAThousandRunsByDefault(t *testing.T) {
	g := registry.New(registry.Config{})
	all := make([]*registry.Run, 1000)
	for i := range all {
		all[i] = started(t, g)
	}
	more, err := g.Claim(t.Context(), ids.Random())
	require.NoError(t, err)
	defer more.Release()
	require.ErrorIs(t, more.Start(), registry.ErrTooMany)
	all[0].Finish(nil, nil)
	require.NoError(t, more.Start(), "there is a place again")
	more.Finish(nil, nil)
	for _, r := range all[1:] {
		r.Finish(nil, nil)
	}
}

func TestTimesByDefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := registry.New(registry.Config{})
		r := started(t, g)
		r.Finish(nil, nil)
		<-time.After(5*time.Minute - time.Nanosecond)
		_, err := g.Cancel(r.ID(), wire.ReasonClientRequest)
		require.ErrorIs(t, err, registry.ErrEnded)
		<-time.After(time.Nanosecond)
		_, err = g.Cancel(r.ID(), wire.ReasonClientRequest)
		require.ErrorIs(t, err, registry.ErrNotFound)
	})
}

func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := registry.New(registry.Config{})
		quick, slow, stuck := started(t, g), started(t, g), started(t, g)
		claimed, err := g.Claim(t.Context(), ids.Random())
		require.NoError(t, err)

		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		drained := make(chan error)
		go func() { drained <- g.Drain(ctx) }()
		synctest.Wait()
		require.True(t, g.Draining())
		require.ErrorIs(t, claimed.Start(), registry.ErrDraining)
		claimed.Release()
		require.NoError(t, slow.Context().Err(), "runs in flight go on")
		state, _ := quick.Finish(nil, nil)
		require.Equal(t, wire.StateCompleted, state)

		<-ctx.Done()
		synctest.Wait()
		require.Equal(t, error(wire.ReasonShutdown), context.Cause(slow.Context()))
		state, _ = slow.Finish(nil, nil)
		require.Equal(t, wire.StateCancelled, state)

		begin := time.Now()
		require.Error(t, <-drained, "one run does not end")
		require.Equal(t, 10*time.Second, time.Since(begin))
		stuck.Finish(errFailed, nil)
		require.NoError(t, g.Drain(t.Context()), "a second drain finds nothing left")
	})
}

func BenchmarkRun(b *testing.B) {
	g := registry.New(registry.Config{})
	b.ReportAllocs()
	for b.Loop() {
		r, err := g.Claim(b.Context(), ids.Random())
		if err != nil {
			b.Fatal(err)
		}
		if err := r.Start(); err != nil {
			b.Fatal(err)
		}
		r.Finish(nil, nil)
	}
}

func ExampleRegistry() {
	registry := registry.New(registry.Config{})
	r, err := registry.Claim(context.Background(), ids.Random())
	if err != nil {
		panic(err) // ErrConflict
	}
	defer r.Release()
	if err := r.Start(); err != nil {
		panic(err) // ErrTooMany, ErrDraining
	}
	answer, _ := registry.Cancel(r.ID(), wire.ReasonClientRequest)
	fmt.Println(answer.State, context.Cause(r.Context()))
	fmt.Println(r.Finish(nil, nil))
	// Output:
	// cancelling client_request
	// cancelled client_request
}
