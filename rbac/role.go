package rbac

import (
	"fmt"
	"slices"
)

// Role is what a principal is in its organization. A server may have roles beside the three of this package.
type Role string

// The ready-made roles, each with less than the one before it.
const (
	Admin      Role = "admin"      // everything, users and the audit log included
	Maintainer Role = "maintainer" // everything but users and the audit log
	Member     Role = "member"     // reads
)

// ParseRole reads one of the ready-made roles. Letter case counts.
func ParseRole(s string) (Role, error) {
	if role := Role(s); slices.Contains([]Role{Admin, Maintainer, Member}, role) {
		return role, nil
	}
	return "", fmt.Errorf("parse role %q: want %s, %s or %s", s, Admin, Maintainer, Member)
}
