package external

import (
	"context"
	"sync"
	"time"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/wire"
)

const (
	maxEvents   = 1200 // of a network or a device within limitWindow, in one replica
	limitWindow = time.Minute
	maxParties  = 1 << 14
)

// networkLimit bounds the work and the rows that a client without a credential can cause.
type networkLimit struct {
	now func() time.Time

	mu      sync.Mutex // guards the fields below
	began   time.Time
	parties map[string]int // events since began
}

func newNetworkLimit(now func() time.Time) *networkLimit {
	return &networkLimit{now: now, parties: map[string]int{}}
}

// take counts n events of a network or a device. It returns how long the client has to wait, or 0.
func (l *networkLimit) take(party string, n int) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if now.Before(l.began) || now.Sub(l.began) >= limitWindow || len(l.parties) >= maxParties {
		l.began = now
		clear(l.parties)
	}

	if l.parties[party]+n > maxEvents {
		return l.began.Add(limitWindow).Sub(now)
	}

	l.parties[party] += n
	return 0
}

// give returns n events that take counted, unless a new window began.
func (l *networkLimit) give(party string, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.parties[party] = max(0, l.parties[party]-n)
}

// admitStart counts the start of a login. A device on which a user of the organization has signed
// in has a budget of its own, so that others at its address do not keep the user out.
func (s *Service) admitStart(ctx context.Context, from api.Caller, in LoginInput) error {
	wait := s.starts.take(api.NetworkOf(from.RemoteIP), 1)
	if wait == 0 {
		return nil
	}

	device, err := s.cfg.Sessions.DeviceIn(ctx, in.Org, in.Devices)
	if err != nil {
		return err
	}

	if device != "" && s.starts.take("device "+device, 1) == 0 {
		return nil
	}

	return &wire.Error{Code: wire.RateLimited, RetryAfter: wait}
}
