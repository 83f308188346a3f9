package api

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/internal/excerpt"
	"github.com/seed93082962/agenthost/rbac"
)

// TokenKind is the kind of a credential.
type TokenKind string

// The kinds of credentials.
const (
	Session TokenKind = "session" // an access token of a login
	CLI     TokenKind = "cli"     // a long-lived token
	Own     TokenKind = "own"     // of a user of the program that embeds the hub
)

// Caller is the user of a request, who is the principal of package rbac, and where the request
// comes from. Services take it as a plain value. On routes that are Open it has only RemoteIP and
// UserAgent; a program that calls a service itself may leave them empty.
type Caller struct {
	RemoteIP  string // "" if the peer has no address, as on a Unix socket
	UserAgent string // as returned by [UserAgent]

	UserID      string
	UserName    string
	DisplayName string
	Email       string
	TenantID    string
	OrgID       string
	RoleNow     rbac.Role // the current role of the member, not that of the token
	Groups      []string  // of the user at the identity provider, sorted, as of the last login
	Kind        TokenKind
	SessionID   string // of a session
	TokenID     string // of a CLI token

	MustChangePassword bool // only routes that are BeforePasswordChange may be called
}

// Roles returns RoleNow.
func (c Caller) Roles() []rbac.Role { return []rbac.Role{c.RoleNow} }

// CallerOf returns the caller of a request that matched a route.
func CallerOf(r *http.Request) Caller {
	caller, _ := rbac.FromContext[Caller](r.Context())
	return caller
}

// Bearer returns the token of the Authorization header, or "" if there is not exactly one.
func Bearer(r *http.Request) string {
	values := r.Header["Authorization"]
	if len(values) != 1 || !isBearer(values[0]) {
		return ""
	}

	token := strings.Trim(values[0][len("Bearer "):], " ")
	if strings.ContainsAny(token, " \t,") {
		return ""
	}

	return token
}

func hasBearer(r *http.Request) bool {
	return slices.ContainsFunc(r.Header["Authorization"], isBearer)
}

// isBearer reports whether the scheme is Bearer, in any letter case (RFC 9110, section 11.1).
func isBearer(value string) bool {
	const scheme = "Bearer "
	return len(value) >= len(scheme) && strings.EqualFold(value[:len(scheme)], scheme)
}

// Event returns the part of an audit entry that comes from the caller: tenant, user, address and
// user agent.
func (c Caller) Event() auditlog.Event {
	return auditlog.Event{
		TenantID: c.TenantID, UserID: c.UserID, UserName: c.UserName, RemoteIP: c.RemoteIP, UserAgent: c.UserAgent,
	}
}

// UserAgent returns the User-Agent header in a form that can be stored and displayed: at most 512
// bytes, cleaned by [Plain].
func UserAgent(r *http.Request) string {
	const most = 512 // bytes
	agent := r.Header.Get("User-Agent")
	return Plain(strings.ToValidUTF8(excerpt.Head(agent, most), ""))
}

// call is the context of a request that matched a route.
type call struct {
	context.Context
	server *server
	route  *Route
	memory memory
	page   *Page // that Paging returned
}

type callKey struct{}

// Value returns the call itself for its key.
func (c *call) Value(key any) any {
	if key == (callKey{}) {
		return c
	}

	return c.Context.Value(key)
}

func callOf(r *http.Request) *call {
	c, _ := r.Context().Value(callKey{}).(*call)
	return c
}

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
