// Package fault is the list of the errors that a person can meet: what caused each, and what to do.
// The hub takes its messages from the list, agenthost explain prints it, and ERRORS.md is made from
// it.
package fault

import (
	"slices"
	"strings"
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

// Fault is an error that a person can meet. PROVIDER, MODEL and AGENT in its texts are names.
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

// Of returns the faults whose code is the text or what precedes a colon in it, in any letter case.
// Those of "" are all.
func Of(text string) []Fault {
	return slices.DeleteFunc(slices.Clone(faults), func(f Fault) bool {
		if text == "" {
			return false
		}

		n := min(len(text), len(f.Code))
		return !strings.EqualFold(text[:n], f.Code) || len(text) > n && text[n] != ':'
	})
}
