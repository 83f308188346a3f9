package api

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// RemoteIP is the address that a request came from: the peer's, or, where that is a trusted proxy, the last in
// X-Forwarded-For that is not one. What cannot be read ends the search: the proxy that passed it on is the answer then.
// It is "" where the peer has no address, as on a Unix socket.
func RemoteIP(r *http.Request) string {
	var proxies []netip.Prefix
	if c := callOf(r); c != nil {
		proxies = c.server.proxies
	}
	at, ok := parseAddr(r.RemoteAddr)
	if !ok {
		return ""
	}
	for _, line := range slices.Backward(r.Header["X-Forwarded-For"]) {
		for len(line) > 0 {
			if !trusted(proxies, at) {
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

func trusted(proxies []netip.Prefix, at netip.Addr) bool {
	return slices.ContainsFunc(proxies, func(p netip.Prefix) bool { return p.Contains(at) })
}

// parseAddr reads an address with or without port, brackets (IPv6 alone) and zone. An IPv4 address in IPv6 form becomes
// the plain one.
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

// plainPrefix takes IPv4 in IPv6 form, in which no address is compared.
func plainPrefix(p netip.Prefix) (netip.Prefix, error) {
	if !p.IsValid() {
		return p, fmt.Errorf("trusted proxy %v: it is no address range", p)
	}
	if p.Addr().Is4In6() {
		if p.Bits() < 96 {
			return p, fmt.Errorf("trusted proxy %v: it is wider than IPv4", p)
		}
		return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96), nil
	}
	return p, nil
}
