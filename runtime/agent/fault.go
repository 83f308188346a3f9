package agent

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Fault is one thing that is wrong with a configuration.
type Fault struct {
	File    string // empty for agents that were built in Go
	Line    int    // from 1; 0 where there is no file
	Column  int    // from 1, in characters; 0 where it is not known
	Key     string // such as agents[1].provider.baseUrl; empty for the file as a whole
	Message string // never tells the value of a Secret
}

// Error gives one line such as "agents.yaml:12: agents[1].model: must be a string, not a number".
func (f Fault) Error() string {
	var b strings.Builder
	if f.File != "" {
		fmt.Fprintf(&b, "%s:%d: ", f.File, f.Line)
	}
	if f.Key != "" {
		b.WriteString(f.Key + ": ")
	}
	b.WriteString(f.Message)
	return b.String()
}

// Faults are all that is wrong, in the order of the file. It is what errors.As finds in an error
// of this package.
type Faults []Fault

// Error gives one line for each fault.
func (fs Faults) Error() string {
	lines := make([]string, len(fs))
	for i, f := range fs {
		lines[i] = f.Error()
	}
	return strings.Join(lines, "\n")
}

// err keeps an empty list from becoming an error that is not nil.
func (fs Faults) err() error {
	if len(fs) == 0 {
		return nil
	}
	return fs
}

func (fs *Faults) add(key, format string, args ...any) {
	*fs = append(*fs, Fault{Key: key, Message: fmt.Sprintf(format, args...)})
}

func (fs Faults) sort() {
	slices.SortStableFunc(fs, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}
