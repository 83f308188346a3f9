package api

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// RemoteIP returns the address of the client: that of the peer or, if the peer is a trusted proxy,
// the last address in X-Forwarded-For that is not a trusted proxy. If an entry cannot be parsed, it
// is the address of the proxy that sent the entry. It is "" if the peer has no address, as on a
// Unix socket.
func RemoteIP(r *http.Request) string {
	if c := callOf(r); c != nil {
		return c.server.remoteIP(r)
	}
	return (&server{}).remoteIP(r)
}

func (s *server) remoteIP(r *http.Request) string {
	at, ok := parseAddr(r.RemoteAddr)
	if !ok {
		return ""
	}
	for _, line := range slices.Backward(r.Header["X-Forwarded-For"]) {
		for len(line) > 0 {
			if !trusted(s.proxies, at) {
				return at.String()
			}
			i := strings.LastIndexByte(line, ',')
			next, ok := parseAddr(strings.Trim(line[i+1:], " \t"))
			if !ok {
				return at.String()
			}
			at, line = next, line[:max(i, 0)]
		}
	}
	return at.String()
}

// warnForwarded logs once that a peer sends forwarding headers and is not a trusted proxy: the
// addresses of its clients are then unknown, and failures of one of them count for all.
func (s *server) warnForwarded(r *http.Request) {
	if s.warned.Load() || r.Header["X-Forwarded-For"] == nil && r.Header["Forwarded"] == nil && r.Header["X-Real-Ip"] == nil {
		return
	}
	peer, ok := parseAddr(r.RemoteAddr)
	if ok && trusted(s.proxies, peer) || !s.warned.CompareAndSwap(false, true) {
		return
	}
	s.cfg.Logger.Warn("forwarding headers from an untrusted peer are ignored: if it is a proxy, add it to the trusted proxies", "remote_ip", peer.String())
}

func trusted(proxies []netip.Prefix, at netip.Addr) bool {
	return slices.ContainsFunc(proxies, func(p netip.Prefix) bool { return p.Contains(at) })
}

// parseAddr parses an address with or without port, brackets (only IPv6) and zone. An IPv4-mapped
// IPv6 address is returned as IPv4.
func parseAddr(s string) (netip.Addr, bool) {
	bare := s
	if strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]") && strings.Contains(s, ":") {
		bare = s[1 : len(s)-1]
	}
	at, err := netip.ParseAddr(bare)
	if err != nil {
		withPort, err := netip.ParseAddrPort(s)
		if err != nil {
			return netip.Addr{}, false
		}
		at = withPort.Addr()
	}
	return at.WithZone("").Unmap(), true
}

// plainPrefix returns an IPv4-mapped prefix as IPv4, because addresses are compared in that form.
func plainPrefix(p netip.Prefix) (netip.Prefix, error) {
	if !p.IsValid() {
		return p, fmt.Errorf("trusted proxy %v: it is not an address range", p)
	}
	if p.Addr().Is4In6() {
		if p.Bits() < 96 {
			return p, fmt.Errorf("trusted proxy %v: it is wider than IPv4", p)
		}
		return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96), nil
	}
	return p, nil
}
