package run_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/runtime/run"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// cancelOne cancels a new run.
func cancelOne(t *testing.T, g *run.Registry) {
	t.Helper()
	r, err := g.Claim(t.Context(), ids.Random())
	require.NoError(t, err)
	require.NoError(t, r.Start())
	r.Cancel(wire.ReasonDisconnect)
	r.Finish(wire.StateFailed)
}

// awaited returns how long AwaitCancels takes.
func awaited(g *run.Registry) time.Duration {
	begin := time.Now()
	g.AwaitCancels()
	return time.Since(begin)
}

func TestAwaitCancels(t *testing.T) {
	for name, row := range map[string]struct {
		cancels int
		gap     time.Duration
		want    time.Duration
	}{
		"no cancel":            {0, 0, 0},
		"one cancel":           {1, 0, 0},
		"two at the same time": {2, 0, 2 * time.Millisecond},
		"256 at the same time": {256, 0, 2 * time.Millisecond},
		"slow cancels":         {10, 2 * time.Millisecond, 0},
		"quick cancels":        {10, time.Millisecond, time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := run.New(run.Config{})
				for range row.cancels {
					cancelOne(t, g)
					<-time.After(row.gap)
				}
				synctest.Wait()
				require.Equal(t, row.want, awaited(g))
				require.Zero(t, awaited(g), "the series has ended")
			})
		})
	}
}

func TestASeriesOfCancelsIsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := run.New(run.Config{})
		cancelOne(t, g)
		cancelOne(t, g)
		var cancels sync.WaitGroup
		cancels.Go(func() {
			for range 100 {
				<-time.After(time.Millisecond)
				cancelOne(t, g)
			}
		})
		require.Equal(t, 50*time.Millisecond, awaited(g))
		cancels.Wait()
	})
}
