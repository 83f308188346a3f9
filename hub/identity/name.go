package identity

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/seed93082962/agenthost/auditlog"
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

// validateDisplayName says what is wrong with a display name, or "".
func validateDisplayName(s string) string {
	switch {
	case strings.TrimSpace(s) == "":
		return "must not be blank"
	case utf8.RuneCountInString(s) > maxDisplayName:
		return "must have at most 128 characters"
	case strings.ContainsFunc(s, unseen):
		return "must not have control characters"
	}
	return ""
}

// unseen characters could end a line or turn the direction of writing where a name is shown.
func unseen(c rune) bool {
	return unicode.In(c, unicode.Cc, unicode.Zl, unicode.Zp, unicode.Bidi_Control)
}

// plain makes a text that a stranger gave fit to be kept and shown.
func plain(s string) string {
	return strings.Map(func(c rune) rune {
		if unseen(c) {
			return utf8.RuneError
		}
		return c
	}, s)
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
