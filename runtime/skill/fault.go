package skill

import (
	"errors"
	"strings"
)

var errNoDescription = errors.New("it has no description")

// What the author of a SKILL.md can do.
const (
	hintFrontmatter = "begin the file with a line ---, lines for name: and description:, and another line ---"
	hintYAML        = `put a value with ": ", quotes or brackets in it between quotes`
	hintDescription = "say in description what the skill is for and when to use it: the model chooses by it"
)

// fault is what is wrong with a SKILL.md, and what to do.
type fault struct {
	err  error
	hint string
}

// faults are those of one file.
type faults []fault

func (f *faults) add(err error, hint string) { *f = append(*f, fault{err, hint}) }

func (f faults) text() string {
	return f.join(func(one fault) string { return one.err.Error() })
}

func (f faults) hint() string {
	return f.join(func(one fault) string { return one.hint })
}

func (f faults) join(part func(fault) string) string {
	parts := make([]string, len(f))
	for i, one := range f {
		parts[i] = strings.ReplaceAll(part(one), "\n", " ")
	}
	return strings.Join(parts, "; ")
}
