package api

import (
	"context"
	"net/http"
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
	Kind        TokenKind
	SessionID   string // of a session
	TokenID     string // of a CLI token

	MustChangePassword bool // only routes that are BeforePasswordChange may be called
}

// Role returns RoleNow.
func (c Caller) Role() rbac.Role { return c.RoleNow }

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
	server  *server
	route   *Route
	release func() // of the share in large responses; nil if it was not taken
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
