package api

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/rbac"
)

// rateWindow is the window of all rates.
const rateWindow = time.Minute

// maxCounted bounds the memory of a Limiter.
const maxCounted = 1 << 14

// Limiter bounds the events of each key within a minute. A window of a key begins with an event.
// Each replica counts separately. It is safe for concurrent use.
type Limiter struct {
	most int
	now  func() time.Time

	mu   sync.Mutex // guards keys
	keys map[string]counted
}

// counted is a window of a key, and the number of events in it.
type counted struct {
	began time.Time
	n     int
}

// NewLimiter returns a Limiter of the clock.
func NewLimiter(most int, now func() time.Time) *Limiter {
	return &Limiter{most: most, now: now, keys: map[string]counted{}}
}

// Count is the state of a key after an event.
type Count struct {
	Exceeded  bool          // the event is beyond the limit
	Remaining int           // further events in the window
	Reset     time.Duration // until the end of the window
}

// Count counts an event of a key.
func (l *Limiter) Count(key string) Count {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	expired := func(c counted) bool { return now.Before(c.began) || now.Sub(c.began) >= rateWindow }
	c, ok := l.keys[key]
	if !ok && len(l.keys) >= maxCounted {
		maps.DeleteFunc(l.keys, func(_ string, c counted) bool { return expired(c) })
		if len(l.keys) >= maxCounted {
			clear(l.keys)
		}
	}

	if expired(c) {
		c = counted{began: now}
	}

	c.n++
	l.keys[key] = c
	return Count{Exceeded: c.n > l.most, Remaining: max(0, l.most-c.n), Reset: c.began.Add(rateWindow).Sub(now)}
}

// rates are the limiters of routes that are Rated. They are nil without a limit.
type rates struct{ user, address *Limiter }

func newRates(cfg Config) rates {
	var r rates
	if cfg.UserRate > 0 {
		r.user = NewLimiter(cfg.UserRate, cfg.Now)
	}

	if cfg.AddressRate > 0 {
		r.address = NewLimiter(cfg.AddressRate, cfg.Now)
	}

	return r
}

// take counts a request for its user and its address, and sets the headers of
// draft-ietf-httpapi-ratelimit-headers-10. A request beyond the limit of the user does not count
// for the address, which others may have too. It fails with RateLimited.
func (r rates) take(h http.Header, caller Caller) error {
	var policies, states []string
	count := func(l *Limiter, name, key string) (Count, bool) {
		if l == nil || key == "" {
			return Count{}, false
		}

		c := l.Count(key)
		policies = append(policies, fmt.Sprintf("%q;q=%d;w=%d", name, l.most, int(rateWindow.Seconds())))
		states = append(states, fmt.Sprintf("%q;r=%d;t=%d", name, c.Remaining, seconds(c.Reset)))
		return c, c.Exceeded
	}
	userKey := ""
	if caller.UserID != "" {
		userKey = caller.TenantID + "/" + caller.UserID
	}

	whose, limit := "this user", LimitUser
	c, exceeded := count(r.user, "user", userKey)
	if !exceeded {
		whose, limit = "this address", LimitAddress
		c, exceeded = count(r.address, "address", AddressOf(caller.RemoteIP))
	}

	if len(policies) > 0 {
		h.Set("RateLimit-Policy", strings.Join(policies, ", "))
		h.Set("RateLimit", strings.Join(states, ", "))
	}

	if !exceeded {
		return nil
	}

	message := "Too many requests of " + whose + " within a minute: wait for the time in Retry-After."
	return &Refusal{Err: &wire.Error{Code: wire.RateLimited, RetryAfter: c.Reset, Message: message}, Limit: limit}
}

// TakeRate counts a request as one to a route that is Rated. It fails with RateLimited. It is for
// handlers that authenticate their callers.
func TakeRate(w http.ResponseWriter, r *http.Request) error {
	c := callOf(r)
	if c == nil {
		return nil
	}

	return c.server.rates.take(w.Header(), CallerOf(r))
}

// CountRate is TakeRate for work that a request with ctx begins after its headers.
func CountRate(ctx context.Context) error {
	c, _ := ctx.Value(callKey{}).(*call)
	if c == nil {
		return nil
	}

	caller, _ := rbac.FromContext[Caller](ctx)
	return c.server.rates.take(http.Header{}, caller)
}

// seconds rounds up.
func seconds(d time.Duration) int64 { return max(1, int64((d+time.Second-1)/time.Second)) }
