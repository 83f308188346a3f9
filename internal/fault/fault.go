// Package fault is the list of the errors that a person can meet: what caused each, and what to do.
// The hub takes its messages from the list, agenthost explain prints it, and ERRORS.md is made from
// it.
package fault

import (
	"regexp"
	"slices"
	"strings"

	"github.com/seed93082962/agenthost/internal/pattern"
)

// Origins of errors.
const (
	Hub        = "hub"        // a response of the hub: code
	Answer     = "answer"     // of an agent in a chat, or the run of a runtime: error_type
	Runtime    = "runtime"    // a response of a runtime: error
	Deployment = "deployment" // a condition of a deployment: type
	Command    = "agenthost"  // the text of an error of the command line
	Exit       = "exit code"  // of the command line
)

// Fault is an error that a person can meet. The words of variable are any text in the code
// of a command, and PROVIDER, MODEL and AGENT in its texts are names.
type Fault struct {
	Origin string `json:"origin"`
	Code   string `json:"code"`             // unique for an origin
	Status int    `json:"status,omitempty"` // of the HTTP response
	Cause  string `json:"cause"`            // a sentence without its period
	Remedy string `json:"remedy"`           // as Cause, in lower case
}

// Text returns the cause and the remedy as one sentence.
func (f Fault) Text() string { return f.Cause + ": " + f.Remedy + "." }

// Find returns the fault of an origin with a code.
func Find(origin, code string) (Fault, bool) {
	i := slices.IndexFunc(faults, func(f Fault) bool { return f.Origin == origin && f.Code == code })
	if i < 0 {
		return Fault{}, false
	}

	return faults[i], true
}

// variable is a word of the code of a command that is any text.
var variable = pattern.Compile(`\b(TEXT|NAME|NAMES|NUMBER|TIME|FILE|DIR|ARCHIVE|ADDRESS|COMMAND|AGENT|PROVIDER)\b`)

// Of returns the faults whose code is the text or what precedes a colon in it, in any letter case.
// If there are none, it returns those of what follows the first colon. Those of "" are all.
func Of(text string) []Fault {
	found := slices.DeleteFunc(slices.Clone(faults), func(f Fault) bool { return text != "" && !f.is(text) })
	if _, rest, ok := strings.Cut(text, ": "); ok && len(found) == 0 && rest != "" {
		return Of(rest)
	}

	return found
}

// is reports whether the code of a fault is the text or what precedes a colon in it.
func (f Fault) is(text string) bool {
	code := regexp.QuoteMeta(f.Code)
	if f.Origin == Command {
		code = variable().ReplaceAllString(code, ".+")
	}

	return regexp.MustCompile(`(?is)^` + code + `($|[:;,])`).MatchString(text)
}
