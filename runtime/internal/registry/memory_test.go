package registry_test

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/runtime/internal/registry"
	"github.com/seed93082962/agenthost/runtime/run"
)

// A run whose end waits for the bus is released when the end is stored, and when it has expired.
func TestMemoryOfLateEnds(t *testing.T) {
	for name, test := range map[string]struct {
		outage time.Duration
		ends   int64
	}{
		"stored": {time.Minute, 1}, "expired": {5 * time.Minute, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cut := &cutBus{Bus: run.NewMemoryBus()}
				g := registry.New(registry.Config{Bus: cut})
				defer g.Close()
				r := started(t, g)
				stored := weak.Make(r)
				r.Finish(nil, nil)
				r = nil
				synctest.Wait()
				runtime.GC()
				require.Nil(t, stored.Value(), "it does not wait")
				require.EqualValues(t, 1, cut.ends.Swap(0))

				r = started(t, g)
				late := weak.Make(r)
				cut.full.Store(true)
				r.Finish(nil, nil)
				runtime.GC()
				require.NotNil(t, late.Value(), "it waits")
				r = nil
				<-time.After(test.outage)
				cut.full.Store(false)
				<-time.After(10 * time.Second)
				require.Equal(t, test.ends, cut.ends.Load())
				runtime.GC()
				require.Nil(t, late.Value())
			})
		})
	}
}

// At most 10,000 ends wait for the bus.
func TestManyLateEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cut := &cutBus{Bus: run.NewMemoryBus()}
		g := registry.New(registry.Config{Bus: cut})
		defer g.Close()
		cut.away.Store(true)
		for range 10_001 {
			started(t, g).Finish(nil, nil)
		}
		cut.away.Store(false)
		<-time.After(time.Minute)
		require.EqualValues(t, 10_000, cut.ends.Load())
	})
}

// A MemoryBus removes the entries that have expired once a minute.
func TestMemoryOfEntriesIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := run.NewMemoryBus()
		heap := func() uint64 {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			return m.HeapAlloc
		}
		put := func(n int, ttl time.Duration) (last run.ID) {
			for range n {
				last = ids.Random()
				_, err := bus.Put(t.Context(), last, run.Claim{Owner: last}, ttl)
				require.NoError(t, err)
			}
			return last
		}
		before := heap()
		kept := put(1, time.Hour)
		for range 5 {
			put(5000, time.Second)
			<-time.After(time.Minute)
		}
		put(1, time.Second)
		require.Less(t, heap(), before+(2<<20), "25,000 entries have expired")
		e, err := bus.Get(t.Context(), kept)
		require.NoError(t, err)
		require.NotZero(t, e)
		runtime.KeepAlive(bus)
	})
}
