package api

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/rbac"
)

// TokenKind is what a caller showed.
type TokenKind string

// The kinds of tokens.
const (
	Session TokenKind = "session" // an access token of a login
	CLI     TokenKind = "cli"     // a long-lived token
)

// Caller is who a request is from: the principal of package rbac.
type Caller struct {
	UserID      string
	UserName    string
	DisplayName string
	Email       string
	TenantID    string
	OrgID       string
	RoleNow     rbac.Role // the role that the member has now, whatever a token says
	Kind        TokenKind
	SessionID   string // of a session
	TokenID     string // of a CLI token
}

// Role is RoleNow.
func (c Caller) Role() rbac.Role { return c.RoleNow }

// CallerOf is who the request is from. It is zero on routes that are Open.
func CallerOf(r *http.Request) Caller {
	caller, _ := rbac.FromContext[Caller](r.Context())
	return caller
}

// Bearer is the token of the Authorization header, "" where there is none, or more than one.
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

// isBearer compares the scheme without regard to case, as RFC 9110 wants it.
func isBearer(value string) bool {
	const scheme = "Bearer "
	return len(value) >= len(scheme) && strings.EqualFold(value[:len(scheme)], scheme)
}

// RequestEvent is what an audit entry of this request begins with: tenant, user, address and user agent.
func RequestEvent(r *http.Request) auditlog.Event {
	caller := CallerOf(r)
	return auditlog.Event{
		TenantID: caller.TenantID, UserID: caller.UserID, UserName: caller.UserName,
		RemoteIP: RemoteIP(r), UserAgent: UserAgent(r),
	}
}

// UserAgent is the header of that name as something that can be stored and shown: at most 512 characters, as Plain has them.
func UserAgent(r *http.Request) string {
	const most = 512 // bytes
	agent := r.Header.Get("User-Agent")
	return Plain(strings.ToValidUTF8(agent[:min(len(agent), most)], ""))
}

// call is the context of a request that a route took.
type call struct {
	context.Context
	server *server
	route  *Route
}

type callKey struct{}

// Value gives the call itself for its key.
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
