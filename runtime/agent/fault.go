package agent

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
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

var plainKey = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// child returns the key of an entry of a map: provider.baseUrl, or datasets["a.b"] for a name that
// contains other characters.
func child(parent, name string) string {
	switch {
	case !plainKey.MatchString(name):
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

// nearest returns the known name that is most similar to an unknown one, or "".
func nearest[V any](wrong string, known map[string]V) string {
	best, least := "", 3
	for name := range known {
		d := distance(plainName.Replace(strings.ToLower(wrong)), strings.ToLower(name))
		// Two edits of a short name make a different word.
		if d > len(name)/3 {
			continue
		}
		if d < least || d == least && name < best {
			best, least = name, d
		}
	}
	return best
}

var plainName = strings.NewReplacer("_", "", "-", "")

// distance returns the number of insertions, deletions, replacements and swaps of adjacent bytes
// that turn a into b. It is large for names whose lengths differ by more than two bytes.
func distance(a, b string) int {
	const far = 100
	if len(a) > len(b)+2 || len(b) > len(a)+2 {
		return far
	}
	var last []int
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		next := make([]int, len(b)+1)
		next[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			next[j] = min(row[j]+1, next[j-1]+1, row[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				next[j] = min(next[j], last[j-2]+1)
			}
		}
		last, row = row, next
	}
	return row[len(b)]
}
