package identity

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/seed93082962/agenthost/hub/api"
)

const (
	minPassword, maxPassword = 8, 128 // characters
	maxUsername              = 64     // characters, as in usernameForm
	maxDisplayName           = 128    // characters
	maxAuditName             = 128    // characters of the name that a failed login gave
)

var usernameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$`)

// foldUsername returns the form in which usernames are compared: with ASCII letters in lower case.
// Other letters stay, because some of them (the Kelvin sign) have an ASCII letter as their lower
// case.
func foldUsername(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}

// validateUsername returns the fault of a username, or "".
func validateUsername(s string) string {
	if !usernameForm.MatchString(s) {
		return "must be 1 to 64 of A-Z, a-z, 0-9, '.', '_', '@' and '-', and begin with a letter or digit"
	}
	return ""
}

// validatePassword returns the fault of a new password of a user, or "". Every character is
// permitted and counts as one.
func validatePassword(username, s string) string {
	n := utf8.RuneCountInString(s)
	switch {
	case n < minPassword || n > maxPassword:
		return "must have 8 to 128 characters"
	case strings.EqualFold(strings.TrimSpace(s), username):
		return "must not be the username"
	case isCommon(s):
		return "must not be one of the 10,000 most common passwords"
	}
	return ""
}

// checkDisplayName adds the fault of a display name, and returns it without surrounding white
// space.
func checkDisplayName(faults api.Fields, field, s string) string {
	return faults.Line(field, s, 1, maxDisplayName)
}
