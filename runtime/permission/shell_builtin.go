package permission

import (
	"regexp"
	"slices"
	"strings"
)

// interpreters are the builtins of bash that run or expand their arguments or their input, or that
// change variables or what the commands after them mean.
const interpreters = " . alias bind builtin command compgen complete compopt coproc declare enable eval exec export" +
	" fc getopts hash history jobs let local mapfile read readarray readonly set shopt source trap typeset unalias unset "

// interpreterOptions are patterns for the options that make another builtin such an interpreter.
var interpreterOptions = map[string][]string{
	"printf": {"-v*"},      // assigns, and expands the index in a[...]
	"test":   {"-v", "-R"}, // expand the index in a[...]
	"[":      {"-v", "-R"},
	"wait":   {"-*p*"}, // assigns; options may be clustered, as in -np
}

// countDirective is the directive of printf that assigns to a variable.
var countDirective = regexp.MustCompile(`%[^A-Za-z%]*[hjlLtz]*n`)

// interprets reports whether the command is a builtin that may run or change other commands.
func (c command) interprets() bool {
	name := c[0].text
	if strings.Contains(interpreters, " "+name+" ") {
		return true
	}
	if name == "printf" && c.formatIsOpen() {
		return true
	}
	options := interpreterOptions[name]
	return slices.ContainsFunc(c[1:], func(w word) bool {
		if name == "printf" && countDirective.MatchString(w.text) {
			return true
		}
		return slices.ContainsFunc(options, w.mayMatch)
	})
}

// formatIsOpen reports whether the format of printf is not known before the command runs. The name
// of a file may contain a directive that assigns.
func (c command) formatIsOpen() bool {
	args := c[1:]
	if len(args) > 0 && args[0].text == "--" {
		args = args[1:]
	}
	return len(args) > 0 && args[0].open
}
