package runtime

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// guard lets through what may reach the API: no web page of another origin, no name that was
// pointed at loopback, no caller without a key where there are keys.
func (rt *Runtime) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := rt.admit(r); err != nil {
			rt.fail(w, r, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (rt *Runtime) admit(r *http.Request) error {
	if len(rt.keys) == 0 && overLoopback(r) && !rt.knownHost(r.Host) {
		return forbidden("a runtime without an API key answers on loopback only to a loopback host name")
	}
	if rt.crossing.Check(r) != nil {
		return forbidden("cross-origin request")
	}
	if len(rt.keys) == 0 || r.URL.Path != "/v1" && !strings.HasPrefix(r.URL.Path, "/v1/") {
		return nil
	}
	key := r.Header.Get("X-Api-Key")
	if key == "" {
		return unauthorized("missing x-api-key header")
	}
	// All keys are compared, so that the time says nothing about which one is near.
	sum, same := sha256.Sum256([]byte(key)), 0
	for i := range rt.keys {
		same |= subtle.ConstantTimeCompare(sum[:], rt.keys[i][:])
	}
	if same == 0 {
		return unauthorized("invalid api key")
	}
	return nil
}

// overLoopback tells whether the request came in on a loopback address of this machine.
func overLoopback(r *http.Request) bool {
	addr, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return ok && addr.IP.IsLoopback()
}

// knownHost tells whether a Host header names loopback, or a host of the configuration.
func (rt *Runtime) knownHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	if addr, err := netip.ParseAddr(host); err == nil && addr.Unmap().IsLoopback() {
		return true
	}
	return slices.ContainsFunc(rt.cfg.Hosts, func(known string) bool { return strings.EqualFold(known, host) })
}
