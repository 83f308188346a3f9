package external

import (
	"net/netip"
	"sync"
	"time"
)

const (
	maxStarts   = 1200 // logins that a network may start within startWindow, in one replica
	startWindow = time.Minute
	maxNetworks = 1 << 14
)

// startLimit bounds the rows that a client without a credential can create.
type startLimit struct {
	now func() time.Time

	mu       sync.Mutex // guards the fields below
	began    time.Time
	networks map[string]int // since began
}

func newStartLimit(now func() time.Time) *startLimit {
	return &startLimit{now: now, networks: map[string]int{}}
}

// allow counts a login. It returns how long the client has to wait, or 0.
func (l *startLimit) allow(remoteIP string) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if now.Before(l.began) || now.Sub(l.began) >= startWindow || len(l.networks) >= maxNetworks {
		l.began = now
		clear(l.networks)
	}
	network := networkOf(remoteIP)
	l.networks[network]++
	if l.networks[network] <= maxStarts {
		return 0
	}
	return l.began.Add(startWindow).Sub(now)
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
