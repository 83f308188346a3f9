package httpapi

import (
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/seed93082962/agenthost/internal/domain"
)

// AllowsHost reports whether the Host header of a request rules out DNS rebinding, for a listener
// that requires no credential. The owner of a domain can resolve it to any address, such as
// 127.0.0.1 or an address of a local network. A browser then treats the server as part of the web
// page's own site. A host name must therefore be a loopback name or one of the allowed names; the
// allowed name "*" is any name. An address is safe, because only pages from that address have it as
// their origin. Browsers never send an empty Host. On a loopback connection, the only addresses
// allowed are loopback addresses.
func AllowsHost(r *http.Request, names []string) bool {
	host := HostName(r.Host)
	for _, name := range names {
		if name == "*" || HostName(name) == host {
			return true
		}
	}

	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}

	addr, err := netip.ParseAddr(host)
	if err == nil && addr.Unmap().IsLoopback() {
		return true
	}

	return (err == nil || host == "") && !overLoopback(r)
}

// overLoopback reports whether the request arrived on a loopback address of this machine.
func overLoopback(r *http.Request) bool {
	addr, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return ok && addr.IP.IsLoopback()
}

// HostName returns the host of a Host header in lower case, without port, brackets and the dot at
// its end.
func HostName(hostport string) string {
	host := hostport
	if name, _, err := net.SplitHostPort(hostport); err == nil {
		host = name
	} else if len(host) > 1 && host[0] == '[' && host[len(host)-1] == ']' {
		host = host[1 : len(host)-1]
	}

	return domain.Lower(strings.TrimSuffix(host, "."))
}
