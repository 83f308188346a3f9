package rbac

import (
	"fmt"
	"slices"
)

// Role is the role of a principal. A server may define roles in addition to those of this package.
type Role string

// The predefined roles, in decreasing order of permissions.
const (
	Admin      Role = "admin"      // everything, including users and the audit log
	Maintainer Role = "maintainer" // everything except users and the audit log
	Member     Role = "member"     // read access
)

// ParseRole returns the predefined role with the name s. It is case-sensitive.
func ParseRole(s string) (Role, error) {
	if role := Role(s); slices.Contains([]Role{Admin, Maintainer, Member}, role) {
		return role, nil
	}
	return "", fmt.Errorf("parse role %q: want %s, %s or %s", s, Admin, Maintainer, Member)
}
