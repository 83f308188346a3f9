package outbound

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"
)

const (
	maxRedirects   = 5
	maxHeaderBytes = 64 << 10
)

// ErrAddress is wrapped by the error of a call to an address that is not public.
var ErrAddress = errors.New("the address is private or reserved, and only public addresses are allowed")

// Public returns a client for untrusted URLs. It connects to public addresses (see [IsPublic]) and
// to addresses for which allow returns true; allow may be nil. The address is checked when it is
// dialled, after each lookup and for each redirect, so that a name cannot resolve to another
// address after the check. The client uses no proxy, because a proxy would dial the address itself,
// and stores no cookies.
//
// The client follows 5 redirects, none of them from https to http. A response has at most 64 KiB of
// headers, which must arrive within a minute; the context of a call bounds the rest. Callers should
// reuse the client: each client has its own connections.
func Public(allow func(netip.Addr) bool) *http.Client {
	t := Transport()
	t.DialContext = DialPublic(allow)
	t.DisableCompression = false
	t.MaxIdleConns, t.MaxIdleConnsPerHost, t.IdleConnTimeout = 64, 4, 30*time.Second
	t.MaxResponseHeaderBytes, t.ResponseHeaderTimeout = maxHeaderBytes, time.Minute
	t.ReadBufferSize, t.WriteBufferSize = 0, 0
	return &http.Client{Transport: t, CheckRedirect: checkRedirect}
}

// DialPublic returns the function with which the client of [Public] connects.
func DialPublic(allow func(netip.Addr) bool) func(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := net.Dialer{
		Timeout:   10 * time.Second,
		KeepAlive: 30 * time.Second,
		ControlContext: func(_ context.Context, network, address string, _ syscall.RawConn) error {
			to, err := netip.ParseAddrPort(address)
			if err != nil || network != "tcp4" && network != "tcp6" {
				return fmt.Errorf("%w: %s over %s", ErrAddress, address, network)
			}
			if addr := to.Addr().Unmap(); !IsPublic(addr) && (allow == nil || !allow(addr)) {
				return ErrAddress
			}
			return nil
		},
	}
	return withoutResolver(dialer.DialContext)
}

func checkRedirect(r *http.Request, via []*http.Request) error {
	from := via[len(via)-1].URL
	switch {
	case len(via) > maxRedirects:
		return fmt.Errorf("more than %d redirects", maxRedirects)
	case r.URL.Scheme != "http" && r.URL.Scheme != "https":
		return fmt.Errorf("redirect to a %q URL: only http and https are followed", r.URL.Scheme)
	case r.URL.Scheme == "http" && from.Scheme == "https":
		return fmt.Errorf("redirect from https to %s is not followed: it needs a call of its own", r.URL.Redacted())
	}
	return nil
}

// IsPublic reports whether addr is the address of one host of the public internet, according to the
// special-purpose registries of IANA. Addresses of tunnels that embed another address are not
// public, except for NAT64 (RFC 6052), through which networks without IPv4 reach IPv4 hosts: there,
// the embedded address is checked.
func IsPublic(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("") // a prefix contains no address with a zone
	if nat64.Contains(addr) {
		b := addr.As16()
		addr = netip.AddrFrom4([4]byte(b[12:]))
	}
	if addr.Is6() && !global6.Contains(addr) || !addr.IsValid() {
		return false
	}
	for _, block := range special {
		if block.Contains(addr) {
			return false
		}
	}
	return true
}

// global6 contains all global unicast addresses. Loopback, link-local, unique local, multicast and
// discard-only addresses are outside of it, and so are other addresses that embed IPv4.
var (
	global6 = netip.MustParsePrefix("2000::/3")
	nat64   = netip.MustParsePrefix("64:ff9b::/96")
)

// special lists blocks of addresses that are not public.
var special = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),        // this network: 0.0.0.0 is the own host
	netip.MustParsePrefix("10.0.0.0/8"),       // private
	netip.MustParsePrefix("100.64.0.0/10"),    // shared by the customers of a provider
	netip.MustParsePrefix("127.0.0.0/8"),      // loopback
	netip.MustParsePrefix("168.63.129.16/32"), // the host of a machine in Azure
	netip.MustParsePrefix("169.254.0.0/16"),   // link-local, with the metadata of clouds
	netip.MustParsePrefix("172.16.0.0/12"),    // private
	netip.MustParsePrefix("192.0.0.0/24"),     // protocol assignments
	netip.MustParsePrefix("192.0.2.0/24"),     // documentation
	netip.MustParsePrefix("192.88.99.0/24"),   // 6to4 relays
	netip.MustParsePrefix("192.168.0.0/16"),   // private
	netip.MustParsePrefix("198.18.0.0/15"),    // benchmarks
	netip.MustParsePrefix("198.51.100.0/24"),  // documentation
	netip.MustParsePrefix("203.0.113.0/24"),   // documentation
	netip.MustParsePrefix("224.0.0.0/4"),      // multicast
	netip.MustParsePrefix("240.0.0.0/4"),      // reserved, and broadcast
	netip.MustParsePrefix("2001::/23"),        // protocol assignments: Teredo, benchmarks, identifiers
	netip.MustParsePrefix("2001:db8::/32"),    // documentation
	netip.MustParsePrefix("2002::/16"),        // 6to4
	netip.MustParsePrefix("3fff::/20"),        // documentation
}
