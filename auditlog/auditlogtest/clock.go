package auditlogtest

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/auditlog"
)

// RunClock tests a store whose clock can be set: it must take the time of entries from now, which
// may go back.
func RunClock(t *testing.T, open func(t testing.TB, now func() time.Time) auditlog.Store) {
	t.Helper()
	start := time.Date(2026, 3, 4, 5, 6, 7, 123456789, time.FixedZone("", 3600))
	for _, part := range []struct {
		name string
		test func(*testing.T, auditlog.Store, *clock)
	}{
		{"a clock that goes back", backwards},
		{"one time for all", standing},
		{"prune", prune},
		{"prune at the border", pruneAtBorder},
		{"prune with a clock that is behind", pruneBehind},
		{"random times", func(t *testing.T, s auditlog.Store, c *clock) { random(t, s, c) }},
	} {
		t.Run(part.name, func(t *testing.T) {
			c := &clock{now: start}
			part.test(t, open(t, c.Now), c)
		})
	}
}

// clock is a clock that is set.
type clock struct {
	mu  sync.Mutex // guards now
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) move(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(by)
}

func backwards(t *testing.T, s auditlog.Store, c *clock) {
	name := tenant()
	begin := time.Date(2026, 3, 4, 4, 6, 7, 123456000, time.UTC)
	var want []time.Time
	for _, row := range []struct{ move, after time.Duration }{
		{0, 0},                                // truncated to microseconds, in UTC
		{-time.Hour, 0},                       // back
		{time.Hour - 1, 0},                    // nearly there again
		{2 * time.Microsecond, 2000},          // 123456788 + 2000 ns
		{-30 * time.Hour, 2000},               //
		{40 * time.Hour, 10*time.Hour + 2000}, // 10 hours on
	} {
		c.move(row.move)
		mustAppend(t, s, logins(name, 1)...)
		want = append(want, begin.Add(row.after))
	}
	for i, e := range all(t, s, name, auditlog.Filter{}, nil) {
		require.Equal(t, want[i], e.CreatedAt, "entry %d", i+1)
	}
	requireFound(t, s, name, auditlog.Filter{From: begin, To: begin}, 1, 2, 3)
	requireFound(t, s, name, auditlog.Filter{From: begin.Add(1), To: begin.Add(2000)}, 4, 5)
	verified(t, s, name)

	other := tenant()
	c.move(-time.Hour)
	mustAppend(t, s, logins(other, 1)...)
	require.Equal(t, want[5].Add(-time.Hour), all(t, s, other, auditlog.Filter{}, nil)[0].CreatedAt, "each tenant has its own last time")
}

func standing(t *testing.T, s auditlog.Store, _ *clock) {
	name := tenant()
	for range 4 {
		mustAppend(t, s, logins(name, 3)...)
	}
	begin := all(t, s, name, auditlog.Filter{}, nil)[0].CreatedAt
	p := query(t, s, auditlog.Query{TenantID: name, Filter: auditlog.Filter{From: begin, To: begin}, Offset: 5, Limit: 3})
	require.Equal(t, uint64(12), p.Total)
	require.Equal(t, []uint64{7, 6, 5}, ids(p.Items), "of one time the later id is the newer")
	requireFound(t, s, name, auditlog.Filter{From: begin.Add(1)})
	requireFound(t, s, name, auditlog.Filter{To: begin.Add(-1)})
}
