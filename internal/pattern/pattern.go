// Package pattern has regular expressions that are compiled when they are used first. Those of all
// packages of a program would take milliseconds of its start, and a megabyte.
package pattern

import (
	"regexp"
	"sync"
)

// Compile returns a function that returns the regular expression of a text. It panics if the text
// is not one.
//
//	var agentID = pattern.Compile(`^[a-z0-9]+$`)
//	...
//	valid := agentID().MatchString(id)
func Compile(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}
