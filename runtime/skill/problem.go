package skill

import (
	"errors"
	"strings"
)

var errNoDescription = errors.New("the description is missing")

// Corrections for the author of a SKILL.md.
const (
	hintFrontmatter = "begin the file with a line ---, lines for name: and description:, and another line ---"
	hintYAML        = `quote a value that contains ": ", quotes or brackets`
	hintDescription = "describe in description the purpose of the skill and when to use it: the model chooses by it"
)

// problem is a mistake in a SKILL.md, with its correction.
type problem struct {
	err  error
	hint string
}

// problems are the mistakes in one file.
type problems []problem

func (f *problems) add(err error, hint string) { *f = append(*f, problem{err, hint}) }

func (f problems) text() string {
	return f.join(func(one problem) string { return one.err.Error() })
}

func (f problems) hint() string {
	return f.join(func(one problem) string { return one.hint })
}

func (f problems) join(part func(problem) string) string {
	parts := make([]string, len(f))
	for i, one := range f {
		parts[i] = strings.ReplaceAll(part(one), "\n", " ")
	}
	return strings.Join(parts, "; ")
}
