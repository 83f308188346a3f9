package hub

import (
	"maps"
	"sync"
	"time"
)

// limiter bounds the events of each caller within a window of time. Each replica counts separately.
type limiter struct {
	most   int
	window time.Duration
	now    func() time.Time

	mu      sync.Mutex // guards callers
	callers map[string]counted
}

// counted is a window of a caller, and the number of events in it.
type counted struct {
	began time.Time
	n     int
}

// maxCounted bounds the memory of a limiter.
const maxCounted = 1 << 14

func newLimiter(most int, window time.Duration, now func() time.Time) *limiter {
	return &limiter{most: most, window: window, now: now, callers: map[string]counted{}}
}

// allow counts an event of the caller. It returns how long the caller has to wait, or 0 if the
// event is within the limit.
func (l *limiter) allow(caller string) (wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	expired := func(c counted) bool { return now.Before(c.began) || now.Sub(c.began) >= l.window }
	c, ok := l.callers[caller]
	if !ok && len(l.callers) >= maxCounted {
		maps.DeleteFunc(l.callers, func(_ string, c counted) bool { return expired(c) })
		if len(l.callers) >= maxCounted {
			clear(l.callers)
		}
	}
	if expired(c) {
		c = counted{began: now}
	}
	c.n++
	l.callers[caller] = c
	if c.n <= l.most {
		return 0
	}
	return c.began.Add(l.window).Sub(now)
}
