package rbac

import (
	"fmt"
	"slices"
)

// Group is a named set of roles. The zero Group holds none, and so lets nobody in.
type Group struct {
	name  string
	roles []Role
}

// The ready-made groups.
var (
	AdminRead  = NewGroup("adminRead", Admin, Maintainer, Member) // reads that give no secret away
	AdminWrite = NewGroup("adminWrite", Admin, Maintainer)        // changes, and reads of secrets
	AdminOnly  = NewGroup("adminOnly", Admin)                     // users and the audit log
)

// NewGroup makes a group. The name is for errors and logs.
func NewGroup(name string, roles ...Role) Group {
	return Group{name, slices.Clone(roles)}
}

// Allows reports whether role is in the group. The Role "" never is.
func (g Group) Allows(role Role) bool {
	return role != "" && slices.Contains(g.roles, role)
}

// Check returns nil for a principal whose role is in the group, and a [*DeniedError] for any other, nil included.
func (g Group) Check(p Principal) error {
	var role Role
	if p != nil {
		role = p.Role()
	}
	if g.Allows(role) {
		return nil
	}
	return &DeniedError{g, role}
}

// IsZero reports whether g is the zero Group.
func (g Group) IsZero() bool { return g.name == "" && g.roles == nil }

// String is the name of the group.
func (g Group) String() string { return g.name }

// DeniedError is the refusal of a role that is not in the group. Role is "" where there was no principal.
type DeniedError struct {
	Group Group
	Role  Role
}

func (e *DeniedError) Error() string {
	return fmt.Sprintf("check role: %q is not in group %q", e.Role, e.Group)
}
