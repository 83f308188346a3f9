package agent

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/seed93082962/agenthost/internal/pattern"
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

var plainKey = pattern.Compile(`^[A-Za-z0-9_-]+$`)

// child returns the key of an entry of a map: provider.baseUrl, or datasets["a.b"] for a name that
// contains other characters.
func child(parent, name string) string {
	switch {
	case !plainKey().MatchString(name):
		return parent + "[" + strconv.Quote(name) + "]"
	case parent == "":
		return name
	}

	return parent + "." + name
}

func element(parent string, i int) string { return parent + "[" + strconv.Itoa(i) + "]" }

// parent is the inverse of child and element. A quoted name that contains dots is split at them. No
// value has such a partial key, and further calls return the actual parent.
func parent(key string) string { return key[:max(0, strings.LastIndexAny(key, ".["))] }

// nearest returns a known name that differs from an unknown one in letter case, "_" and "-", and in
// one letter or two swapped ones, or "".
func nearest[V any](wrong string, known map[string]V) string {
	wrong = plainName.Replace(strings.ToLower(wrong))
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if similar(wrong, strings.ToLower(name)) {
			return name
		}
	}

	return ""
}

var plainName = strings.NewReplacer("_", "", "-", "")

// similar reports whether a and b are equal but for one letter or two swapped ones.
func similar(a, b string) bool {
	for a != "" && b != "" && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}

	for a != "" && b != "" && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}

	swapped := len(a) == 2 && len(b) == 2 && a[0] == b[1] && a[1] == b[0]
	return swapped || len(a) <= 1 && len(b) <= 1
}
