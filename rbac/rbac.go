// Package rbac checks permissions by role. A [Principal] has roles, a [Group] is a named set of
// roles, and [Group.Check] reports whether one of the principal's roles is in the group. The
// package defines three roles and three groups; [NewGroup] returns others.
//
// The package does not depend on a server. [Middleware] authenticates a request with a function of
// the server, checks the group of the handler, and stores the principal in the request's context:
//
//	guard := rbac.Middleware{Principal: sessions.Principal}
//	mux.Handle("DELETE /users/{id}", guard.Require(rbac.AdminOnly, deleteUser))
//
// The default is to deny: the zero Group has no roles, the empty Role is in no group, and a
// principal without roles may call nothing. The package imports only the standard library.
package rbac

import (
	"context"
	"fmt"
	"reflect"
	"slices"
)

// Principal is the authenticated caller of a request. Servers implement it with their own type.
type Principal interface {
	// Roles returns the roles of the principal. One of them in a group is enough.
	Roles() []Role
}

type contextKey struct{}

// NewContext returns a context that carries p.
func NewContext(ctx context.Context, p Principal) context.Context {
	return context.WithValue(ctx, contextKey{}, p)
}

// FromContext returns the principal of ctx as type P. It reports false if ctx has no principal or
// one of another type. FromContext[Principal] accepts every type.
func FromContext[P Principal](ctx context.Context) (P, bool) {
	p, ok := ctx.Value(contextKey{}).(P)
	return p, ok && !isNil(p)
}

// isNil reports whether p is nil or a nil pointer of its type, which is no principal either.
func isNil(p Principal) bool {
	v := reflect.ValueOf(p)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}

// Role is the role of a principal. A server may define roles in addition to those of this package.
type Role string

// The predefined roles, in decreasing order of permissions.
const (
	Admin      Role = "admin"      // everything, including users and the audit log
	Maintainer Role = "maintainer" // everything except users and the audit log
	Member     Role = "member"     // read access
)

// Check returns an error if r is not a predefined role.
func (r Role) Check() error {
	if slices.Contains([]Role{Admin, Maintainer, Member}, r) {
		return nil
	}

	return fmt.Errorf("role %q: want %s, %s or %s", string(r), Admin, Maintainer, Member)
}

// Group is a named set of roles. The zero Group is empty.
type Group struct {
	name  string
	roles []Role
}

// The predefined groups.
var (
	AdminRead  = NewGroup("adminRead", Admin, Maintainer, Member) // read access without secrets
	AdminWrite = NewGroup("adminWrite", Admin, Maintainer)        // write access, and read access to secrets
	AdminOnly  = NewGroup("adminOnly", Admin)                     // users and the audit log
)

// NewGroup returns a group of roles. The name appears in errors and logs.
func NewGroup(name string, roles ...Role) Group {
	return Group{name, slices.Clone(roles)}
}

// Allows reports whether role is in the group. The empty role never is.
func (g Group) Allows(role Role) bool {
	return role != "" && slices.Contains(g.roles, role)
}

// Check returns nil if a role of p is in the group, and a [*DeniedError] if none is or if p is nil
// or a nil pointer.
func (g Group) Check(p Principal) error {
	var roles []Role
	if !isNil(p) {
		roles = p.Roles()
	}

	if slices.ContainsFunc(roles, g.Allows) {
		return nil
	}

	return &DeniedError{Group: g, Roles: slices.Clone(roles)}
}

// IsZero reports whether g is the zero Group.
func (g Group) IsZero() bool { return g.name == "" && g.roles == nil }

// String returns the name of the group.
func (g Group) String() string { return g.name }

// DeniedError reports that no role of a principal is in a group. Roles is empty if there was no
// principal.
type DeniedError struct {
	Group Group
	Roles []Role
}

func (e *DeniedError) Error() string {
	return fmt.Sprintf("check role: none of %q is in group %q", e.Roles, e.Group)
}
