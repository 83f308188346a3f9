package external

import (
	"net/netip"
	"sync"
	"time"
)

const (
	maxEvents   = 1200 // of a network within limitWindow, in one replica
	limitWindow = time.Minute
	maxNetworks = 1 << 14
)

// networkLimit bounds the work and the rows that a client without a credential can cause.
type networkLimit struct {
	now func() time.Time

	mu       sync.Mutex // guards the fields below
	began    time.Time
	networks map[string]int // events since began
}

func newNetworkLimit(now func() time.Time) *networkLimit {
	return &networkLimit{now: now, networks: map[string]int{}}
}

// take counts n events of a network. It returns how long the client has to wait, or 0.
func (l *networkLimit) take(remoteIP string, n int) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if now.Before(l.began) || now.Sub(l.began) >= limitWindow || len(l.networks) >= maxNetworks {
		l.began = now
		clear(l.networks)
	}
	network := networkOf(remoteIP)
	if l.networks[network]+n > maxEvents {
		return l.began.Add(limitWindow).Sub(now)
	}
	l.networks[network] += n
	return 0
}

// give returns n events that take counted, unless a new window began.
func (l *networkLimit) give(remoteIP string, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	network := networkOf(remoteIP)
	l.networks[network] = max(0, l.networks[network]-n)
}

// networkOf returns an IPv4 address, or the /48 of an IPv6 address, which one client may have.
func networkOf(ip string) string {
	addr, err := netip.ParseAddr(ip)
	if err != nil || addr.Unmap().Is4() {
		return ip
	}
	prefix, err := addr.WithZone("").Prefix(48)
	if err != nil {
		return ip
	}
	return prefix.String()
}
