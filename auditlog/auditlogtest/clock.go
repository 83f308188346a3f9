package auditlogtest

import (
	"sync"
	"testing"
	"time"

	"github.com/seed93082962/agenthost/auditlog"
)

// RunClock tests a store whose clock can be set: it must take the time of entries from now, which
// may go back.
func RunClock(t *testing.T, open func(t testing.TB, now func() time.Time) auditlog.Store) {
	t.Helper()
	start := time.Date(2026, 3, 4, 5, 6, 7, 123456789, time.FixedZone("", 3600))
	t.Run("random times", func(t *testing.T) {
		c := &clock{now: start}
		random(t, open(t, c.Now), c)
	})
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
