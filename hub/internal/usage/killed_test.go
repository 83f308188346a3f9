package usage_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/internal/usage"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/rbac"
)

// A run of a deleted agent counts, also if its hub is killed: it holds its reserve until then, next
// to the runs of a later agent of the name.
func TestReservesOfADeletedAgent(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		a, b := hubs(t, url)
		a.limit(1)
		former := a.start()
		caller := a.As("acme", "max", rbac.Admin).Caller
		require.NoError(t, a.store.Change(t.Context(), store.Change{Caller: caller, Group: rbac.AdminOnly}, func(tx *store.Tx) error {
			return a.service.DropBudget(t.Context(), tx, usage.OfAgent, "helper", "helper")
		}))
		require.NotNil(t, b.start(), "no limit")
		require.Equal(t, 2, a.reserves())
		a.store.Leave()
		b.settle()
		require.Eventually(t, func() bool { runs, _ := b.counted(); return runs == 1 }, patience, 20*time.Millisecond, "of the hub that was killed")
		require.EqualValues(t, 1, b.estimates())
		former.End(t.Context(), true, tokens)
		runs, sum := a.counted()
		require.Equal(t, []int64{1, 15, 0}, []int64{runs, sum, a.estimates()})
	}, series...)
}

// A run of an agent without a hard limit has a row whatever ends its hub.
func TestRunsWithoutALimitOfAHubThatWasKilled(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		a, b := hubs(t, url)
		killed, suspended := a.start(), a.start()
		require.NotNil(t, killed)
		require.NotNil(t, suspended)
		a.store.Leave()
		b.settle()
		require.Eventually(t, func() bool { return b.reserves() == 0 }, patience, 20*time.Millisecond)
		runs, sum := b.counted()
		require.Equal(t, []int64{2, 0, 2}, []int64{runs, sum, b.estimates()})
		suspended.End(t.Context(), true, tokens)
		runs, sum = b.counted()
		require.Equal(t, []int64{2, 15, 1}, []int64{runs, sum, b.estimates()})
	}, series...)
}

// A run that no runtime has accepted leaves nothing.
func TestRunsThatAreNotAccepted(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		s := open(t, url, nil)
		s.start().End(t.Context(), false, "")
		runs, _ := s.counted()
		require.Zero(t, runs)
		require.Zero(t, s.reserves())
	}, series...)
}
