package rbac

import (
	"fmt"
	"slices"
)

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

// Check returns nil if a role of p is in the group, and a [*DeniedError] if none is or if p is nil.
func (g Group) Check(p Principal) error {
	var roles []Role
	if p != nil {
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
