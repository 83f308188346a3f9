// Package outbound provides HTTP transports for calls to other servers. [Transport] is for
// streaming responses of servers that the configuration names. [Public] is for URLs that a model or
// a script chooses: it connects only to public addresses.
package outbound

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Transport returns a transport without a limit on the time to the first byte: a model may think
// for minutes, and the caller bounds the time. It uses no proxy, and no compression, which would
// delay a stream. A response has at most 64 KiB of headers.
func Transport() *http.Transport {
	return &http.Transport{
		DialContext:           withoutResolver((&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext),
		TLSHandshakeTimeout:   10 * time.Second,
		ExpectContinueTimeout: time.Second,
		ForceAttemptHTTP2:     true,
		DisableCompression:    true,
		MaxIdleConnsPerHost:   256, // with the default of 2, nearly every call needs a new handshake
		IdleConnTimeout:       90 * time.Second,
		// Each waiting stream holds these buffers. Larger reads and writes bypass them. The
		// defaults are 4 KiB each.
		ReadBufferSize:         1 << 10,
		WriteBufferSize:        1 << 10,
		MaxResponseHeaderBytes: maxHeaderBytes, // in memory that no budget has; the default is 10 MiB
		// Detects a peer that disappeared without closing the connection.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second},
	}
}

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
// The client follows 5 redirects, none of them from https to http. The headers of a response must
// arrive within a minute; the context of a call bounds the rest. Callers should reuse the client:
// each client has its own connections.
func Public(allow func(netip.Addr) bool) *http.Client {
	t := Transport()
	t.DialContext = DialPublic(allow)
	t.DisableCompression = false
	t.MaxIdleConns, t.MaxIdleConnsPerHost, t.IdleConnTimeout = 64, 4, 30*time.Second
	t.ResponseHeaderTimeout = time.Minute
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

// IsPrivate reports whether addr is an address of a private network or of the own host, for
// [Public] of a caller whose users may reach these. Link-local addresses, addresses of metadata
// services and addresses that embed another one are not private in this sense.
func IsPrivate(addr netip.Addr) bool {
	addr = addr.Unmap()
	if addr.Zone() != "" {
		return false
	}

	for _, block := range metadata {
		if block.Contains(addr) {
			return false
		}
	}

	for _, block := range private {
		if block.Contains(addr) {
			return true
		}
	}

	return false
}

var private = []netip.Prefix{
	netip.MustParsePrefix("10.0.0.0/8"),
	netip.MustParsePrefix("100.64.0.0/10"), // shared by the customers of a provider, and used by overlay networks
	netip.MustParsePrefix("127.0.0.0/8"),
	netip.MustParsePrefix("172.16.0.0/12"),
	netip.MustParsePrefix("192.168.0.0/16"),
	netip.MustParsePrefix("::1/128"),
	netip.MustParsePrefix("fc00::/7"),
}

// metadata lists blocks in private that clouds use for their metadata. Other metadata services have
// link-local addresses.
var metadata = []netip.Prefix{
	netip.MustParsePrefix("100.100.100.200/32"), // Alibaba Cloud
	netip.MustParsePrefix("fd00:42::/32"),       // Scaleway
	netip.MustParsePrefix("fd00:ec2::/32"),      // Amazon
	netip.MustParsePrefix("fd20:ce::/32"),       // Google
}

type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// withoutResolver returns dial with lookup errors that do not contain the address of a resolver:
// errors reach models and clients, and the address belongs to the network of the host.
func withoutResolver(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		lookup, ok := errors.AsType[*net.DNSError](err)
		if !ok {
			return conn, err
		}

		reason := "the lookup failed"
		switch {
		case lookup.IsNotFound:
			reason = "no such host"
		case lookup.IsTimeout:
			reason = "the lookup timed out"
		}

		return nil, &net.OpError{Op: "dial", Net: network, Err: &net.DNSError{
			Err: reason, Name: lookup.Name,
			IsNotFound: lookup.IsNotFound, IsTimeout: lookup.IsTimeout, IsTemporary: lookup.IsTemporary,
		}}
	}
}

// ErrTooLarge is the error of reading a response body that is longer than the limit of [Limit].
var ErrTooLarge = errors.New("the response is too large")

// Limit returns t with a limit for the body of each response, in bytes.
func Limit(t *http.Transport, limit int) http.RoundTripper { return limited{t, limit} }

type limited struct {
	*http.Transport
	limit int
}

func (t limited) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := t.Transport.RoundTrip(r)
	if err == nil {
		res.Body = &limitedBody{res.Body, t.limit + 1}
	}

	return res, err
}

type limitedBody struct {
	io.ReadCloser
	rest int // bytes of the limit that are left, and one to see that the body is longer
}

func (b *limitedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p[:min(len(p), b.rest)])
	if b.rest -= n; b.rest == 0 {
		return n, ErrTooLarge
	}

	return n, err
}

// maxRetryAfter limits implausible dates and numbers.
const maxRetryAfter = 24 * time.Hour

// RetryAfter returns the wait that the header Retry-After of a response requests, 0 for none. It is
// in seconds, also with a fraction, or a date (RFC 9110, 10.2.3).
func RetryAfter(h http.Header) time.Duration {
	value := strings.TrimSpace(h.Get("Retry-After"))
	var wait time.Duration
	if seconds, err := strconv.ParseFloat(value, 64); err == nil && seconds > 0 { // not NaN
		wait = time.Duration(min(seconds, maxRetryAfter.Seconds()) * float64(time.Second))
	} else if date, err := http.ParseTime(value); err == nil {
		wait = time.Until(date)
	}

	return min(max(wait, 0), maxRetryAfter)
}
