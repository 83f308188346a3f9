package identity

import (
	"regexp"
	"unicode/utf8"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/api"
)

const (
	minPassword, maxPassword = 8, 128 // characters
	maxDisplayName           = 128    // characters
	maxAuditName             = 128    // characters of the name that a failed login gave
)

var usernameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$`)

// foldUsername is the form in which usernames are compared. Those that can be are ASCII.
func foldUsername(s string) string { return auditlog.Fold(s) }

// validateUsername says what is wrong with a username, or "".
func validateUsername(s string) string {
	if !usernameForm.MatchString(s) {
		return "must be 1 to 64 of A-Z, a-z, 0-9, '.', '_', '@' and '-', and begin with a letter or digit"
	}
	return ""
}

// validatePassword says what is wrong with a new password, or "". Any character counts as one, and none is refused.
func validatePassword(s string) string {
	if n := utf8.RuneCountInString(s); n < minPassword || n > maxPassword {
		return "must have 8 to 128 characters"
	}
	return ""
}

// checkDisplayName notes what is wrong with a display name, and answers it without the white space around it.
func checkDisplayName(faults api.Fields, field, s string) string {
	return faults.Line(field, s, 1, maxDisplayName)
}

// cut keeps the first n characters.
func cut(s string, n int) string {
	for i := range s {
		if n--; n < 0 {
			return s[:i]
		}
	}
	return s
}
