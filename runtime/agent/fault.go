package agent

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Fault is one mistake in a configuration.
type Fault struct {
	File    string // empty for an agent that was built in Go
	Line    int    // from 1; 0 without a file
	Column  int    // from 1, in characters; 0 if unknown
	Key     string // such as agents[1].provider.baseUrl; empty for the file as a whole
	Message string // never contains the value of a Secret
}

// Error returns one line such as "agents.yaml:12: agents[1].model: must be a string, not a number".
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

// Faults are all mistakes in a configuration, in the order of the file. Errors of this package
// contain a Faults, see errors.As.
type Faults []Fault

// Error returns one line for each fault.
func (fs Faults) Error() string {
	lines := make([]string, len(fs))
	for i, f := range fs {
		lines[i] = f.Error()
	}
	return strings.Join(lines, "\n")
}

// err returns nil for an empty list.
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
