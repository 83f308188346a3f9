package run_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/runtime/run"
	"github.com/seed93082962/agenthost/runtime/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func started(t *testing.T, g *run.Registry) *run.Run {
	t.Helper()
	r, err := g.Claim(t.Context(), ids.Random())
	require.NoError(t, err)
	require.NoError(t, r.Start())
	return r
}

func TestARunEndsInTheStateItIsGiven(t *testing.T) {
	for _, state := range []wire.State{wire.StateCompleted, wire.StateFailed} {
		t.Run(string(state), func(t *testing.T) {
			g := run.New(run.Config{})
			r := started(t, g)
			require.NoError(t, r.Context().Err())
			require.Equal(t, state, r.Finish(state))
			require.Error(t, r.Context().Err(), "the context of an ended run is over")
			answer, err := g.Cancel(r.ID(), wire.ReasonClientRequest)
			require.ErrorIs(t, err, run.ErrEnded)
			require.Equal(t, wire.CancelResponse{RunID: r.ID().String(), State: state}, answer)
			require.Equal(t, state, r.Finish(wire.StateFailed), "the first end stays")
		})
	}
}

func TestCancelResponses(t *testing.T) {
	g := run.New(run.Config{})
	r := started(t, g)
	id := r.ID().String()

	answer, err := g.Cancel(r.ID(), wire.ReasonClientRequest)
	require.NoError(t, err)
	require.Equal(t, wire.CancelResponse{RunID: id, State: wire.StateCancelling}, answer, "the first time without a reason")
	require.ErrorIs(t, context.Cause(r.Context()), run.ErrClientRequest)

	answer, err = g.Cancel(r.ID(), wire.ReasonClientRequest)
	require.NoError(t, err)
	require.Equal(t, wire.CancelResponse{RunID: id, State: wire.StateCancelling, Reason: wire.ReasonClientRequest}, answer)

	require.Equal(t, wire.StateCancelled, r.Finish(wire.StateCompleted), "a cancelled run never completes")
	answer, err = g.Cancel(r.ID(), wire.ReasonClientRequest)
	require.NoError(t, err)
	require.Equal(t, wire.CancelResponse{RunID: id, State: wire.StateCancelled, Reason: wire.ReasonClientRequest}, answer)

	_, err = g.Cancel(ids.Random(), wire.ReasonClientRequest)
	require.ErrorIs(t, err, run.ErrNotFound)
}

func TestTheFirstReasonWins(t *testing.T) {
	causes := map[wire.Reason]error{
		wire.ReasonClientRequest: run.ErrClientRequest,
		wire.ReasonDisconnect:    run.ErrDisconnect,
		wire.ReasonShutdown:      run.ErrShutdown,
	}
	for first, cause := range causes {
		for second := range causes {
			t.Run(fmt.Sprintf("%s before %s", first, second), func(t *testing.T) {
				g := run.New(run.Config{})
				r := started(t, g)
				r.Cancel(first)
				r.Cancel(second)
				require.Equal(t, first, r.Reason())
				require.ErrorIs(t, context.Cause(r.Context()), cause)
				r.Finish(wire.StateFailed)
				answer, err := g.Cancel(r.ID(), second)
				require.NoError(t, err)
				require.Equal(t, first, answer.Reason)
			})
		}
	}
}

func TestEndedRunsExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := run.New(run.Config{})
		r, long := started(t, g), started(t, g)
		<-time.After(time.Hour) // an active run never expires, and its time counts from the end
		r.Finish(wire.StateCompleted)

		<-time.After(5*time.Minute - time.Nanosecond)
		_, err := g.Cancel(r.ID(), wire.ReasonClientRequest)
		require.ErrorIs(t, err, run.ErrEnded)
		_, err = g.Claim(t.Context(), r.ID())
		require.ErrorIs(t, err, run.ErrConflict)

		<-time.After(time.Nanosecond)
		_, err = g.Cancel(r.ID(), wire.ReasonClientRequest)
		require.ErrorIs(t, err, run.ErrNotFound)
		again, err := g.Claim(t.Context(), r.ID())
		require.NoError(t, err, "the id may be used again")
		again.Release()

		_, err = g.Cancel(long.ID(), wire.ReasonClientRequest)
		require.NoError(t, err)
		long.Finish(wire.StateCompleted)
	})
}

func TestTerminalTTLIsConfigurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := run.New(run.Config{TerminalTTL: time.Second})
		var runs []*run.Run
		for range 3000 { // more than the queue retains when it is empty
			runs = append(runs, started(t, g))
			runs[len(runs)-1].Finish(wire.StateFailed)
		}
		<-time.After(time.Second)
		for _, r := range runs {
			_, err := g.Cancel(r.ID(), wire.ReasonClientRequest)
			require.ErrorIs(t, err, run.ErrNotFound)
		}
		last := started(t, g)
		last.Finish(wire.StateFailed)
		_, err := g.Cancel(last.ID(), wire.ReasonClientRequest)
		require.ErrorIs(t, err, run.ErrEnded)
	})
}

func TestAnIDIsForOneRunAtATime(t *testing.T) {
	g := run.New(run.Config{})
	id := ids.Random()
	var mu sync.Mutex
	var won []*run.Run
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
	require.ErrorIs(t, err, run.ErrNotFound, "a run that never started leaves nothing")
	r, err := g.Claim(t.Context(), id)
	require.NoError(t, err)
	won[0].Release() // of the former run: it must not touch this one
	_, err = g.Claim(t.Context(), id)
	require.ErrorIs(t, err, run.ErrConflict)
	r.Release()
}

func TestConcurrencyIsLimited(t *testing.T) {
	g := run.New(run.Config{MaxActive: 2})
	first, second := started(t, g), started(t, g)
	third, err := g.Claim(t.Context(), ids.Random())
	require.NoError(t, err)
	require.ErrorIs(t, third.Start(), run.ErrTooMany)
	require.Equal(t, 2, g.Active())
	first.Finish(wire.StateCompleted)
	require.NoError(t, third.Start())
	second.Finish(wire.StateCompleted)
	third.Finish(wire.StateCompleted)
	require.Zero(t, g.Active())
}

func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := run.New(run.Config{})
		quick, slow, stuck := started(t, g), started(t, g), started(t, g)
		claimed, err := g.Claim(t.Context(), ids.Random())
		require.NoError(t, err)

		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		drained := make(chan error)
		go func() { drained <- g.Drain(ctx) }()
		synctest.Wait()
		require.True(t, g.Draining())
		require.ErrorIs(t, claimed.Start(), run.ErrDraining)
		claimed.Release()
		require.NoError(t, slow.Context().Err(), "runs in flight go on")
		require.Equal(t, wire.StateCompleted, quick.Finish(wire.StateCompleted))

		<-ctx.Done()
		synctest.Wait()
		require.ErrorIs(t, context.Cause(slow.Context()), run.ErrShutdown)
		require.Equal(t, wire.StateCancelled, slow.Finish(wire.StateCompleted))

		begin := time.Now()
		require.Error(t, <-drained, "one run does not end")
		require.Equal(t, 10*time.Second, time.Since(begin))
		stuck.Finish(wire.StateFailed)
		require.NoError(t, g.Drain(t.Context()), "a second drain finds nothing left")
	})
}

func BenchmarkRun(b *testing.B) {
	g := run.New(run.Config{})
	b.ReportAllocs()
	for b.Loop() {
		r, err := g.Claim(b.Context(), ids.Random())
		if err != nil {
			b.Fatal(err)
		}
		if err := r.Start(); err != nil {
			b.Fatal(err)
		}
		r.Finish(wire.StateCompleted)
	}
}

func ExampleRegistry() {
	registry := run.New(run.Config{})
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
	fmt.Println(r.Finish(wire.StateCompleted))
	// Output:
	// cancelling run cancelled by request
	// cancelled
}
