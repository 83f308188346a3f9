package user

import (
	"regexp"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/password"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/excerpt"
	"github.com/seed93082962/agenthost/rbac"
)

const (
	maxUsername    = 64  // characters, as in usernameForm
	maxDisplayName = 128 // characters
	maxAuditName   = 128 // characters of the name that a failed login gave
)

var usernameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$`)

// AuditName returns the name that a failed login gave in the form of the audit log.
func AuditName(name string) string { return excerpt.Characters(api.Plain(name), maxAuditName) }

// checkDisplayName adds the fault of a display name, and returns it without surrounding white
// space.
func checkDisplayName(faults api.Fields, field, s string) string {
	return faults.Line(field, s, 1, maxDisplayName)
}

// checkRole adds the fault of a required role.
func checkRole(faults api.Fields, role rbac.Role) {
	if role.Check() != nil {
		faults.Add("role", "must be admin, maintainer or member")
	}
}

// checkAccount adds the faults of the names and the password of a new user, and returns the user
// with the names.
func checkAccount(faults api.Fields, username, given, displayField, display string) User {
	u := User{User: wire.User{Username: username, DisplayName: username}}
	if !usernameForm.MatchString(username) {
		faults.Add("username", "must be 1 to 64 of A-Z, a-z, 0-9, '.', '_', '@' and '-', and begin with a letter or digit")
	}

	if fault := password.Check(username, given); fault != "" {
		faults.Add("password", fault)
	}

	if display != "" {
		u.DisplayName = checkDisplayName(faults, displayField, display)
	}

	return u
}
