package permission

import (
	"errors"
	"fmt"
	"strings"

	"github.com/seed93082962/agenthost/runtime/permission/shell"
)

// script is a Bash command as the policy judges it.
type script struct {
	unreadable *shell.Error // why the command cannot be read
	opaque     *shell.Error // why no pattern and no mode approves the command
	commands   shell.Script
	lines      []string   // for each command, the text that allow patterns are compared with
	lists      [][]string // for each command, the words that deny patterns are compared with
}

func readScript(text string) *script {
	s := &script{}
	commands, err := shell.Read(text)
	if err != nil {
		errors.As(err, &s.unreadable)
		s.opaque = s.unreadable
		return s
	}
	s.commands = commands
	for _, c := range commands {
		var words []string
		for _, w := range c.Words {
			words = append(words, w.Text)
		}
		s.lines = append(s.lines, spaces.Replace(strings.Join(words, separator)))
		for _, r := range c.Redirects {
			words = append(words, r.Target)
			if s.opaque == nil {
				s.opaque = opens(r)
			}
		}
		s.lists = append(s.lists, words)
	}
	return s
}

// separator separates words until the white space inside of words is replaced. No word contains it.
const separator = "\x02"

// spaces marks white space inside a word, as opposed to white space between words.
var spaces = strings.NewReplacer(" ", "\x00", "\t", "\x00", "\n", "\x00", separator, " ")

const devNull = "/dev/null"

// opens returns why no pattern approves a redirection, or nil. Another command of the script may
// change what a path leads to, for example cd, and bash opens connections for /dev/tcp/...
func opens(r shell.Redirect) *shell.Error {
	switch {
	case r.Target == devNull, r.Operator == ">&":
		return nil
	case r.Operator != "<":
		return &shell.Error{Construct: "a redirection into a file other than /dev/null", Advice: "write files with the tool Write"}
	case strings.HasPrefix(r.Target, "/dev/"):
		return &shell.Error{Construct: "a redirection from a device", Advice: "read a file, or /dev/null"}
	}
	return nil
}

// commandError is a reason with the construct because of which a command is not approved.
type commandError struct {
	reason error
	text   string
}

func (e *commandError) Error() string { return e.text }
func (e *commandError) Unwrap() error { return e.reason }

// explain returns a reason with the construct in the command that caused it, if there is one.
func (c *call) explain(reason error) error {
	s := c.cachedScript
	switch {
	case s == nil || s.opaque == nil:
		return reason
	case reason == ErrDenied && s.unreadable == nil: //nolint:errorlint // it is never wrapped
		return reason
	case reason == ErrDenied: //nolint:errorlint // it is never wrapped
		return &commandError{reason, fmt.Sprintf("disallowedTools has patterns for Bash, which are compared only with plain commands. "+
			"This command contains %v", s.opaque)}
	}
	return &commandError{reason, fmt.Sprintf("no pattern in allowedTools and no permission mode approves a command that contains %v", s.opaque)}
}
