// Package shell reads Bash commands in a small language, and writes what bash executes for them.
//
// The language consists of lists (";", newline, "&&", "||") of pipelines of simple commands.
// A command consists of words and redirections. A word consists of literal characters, quotes
// without expansions, escapes and globs. [Read] rejects everything else with an [Error] that names
// the construct.
//
// [Script.String] writes a script from the words that were read. Every word is in single quotes,
// except for the characters of globs, which it writes itself. Programs are started with exec:
// neither a builtin nor an alias nor a function of bash can take the place of a program, and only
// the builtins cd, echo, pwd, true, false, ":" and exit are executed. Therefore bash executes the
// commands of the script and nothing else, even if Read and bash would read the text differently.
package shell

import (
	"fmt"
	"slices"
	"strings"
)

// The limits of a text that [Read] reads and of what [Script.String] writes, in bytes.
const (
	maxText    = 64 << 10
	maxWritten = 96 << 10
)

// Hole is the text that a glob matches, in the text of a word. No word contains this character in
// another place.
const Hole = "\x01"

// Script is a list of pipelines of simple commands.
type Script []Command

// Command is a simple command.
type Command struct {
	After     string // the operator before the command: "|", "&&", "||" or ";", and "" for the first
	Words     []Word // the name, which is not a glob, and the arguments
	Redirects []Redirect
}

// Word is a word without its quotes and escapes.
type Word struct {
	Text  string   // with a Hole for each glob
	globs []string // as bash reads them
}

// Literal returns a word without globs.
func Literal(text string) Word { return Word{Text: text} }

// IsGlob reports whether bash replaces the word by names of files that it matches.
func (w Word) IsGlob() bool { return len(w.globs) > 0 }

// Redirect is a redirection of a descriptor from 0 to 2.
type Redirect struct {
	Descriptor string
	Operator   string // "<", ">" or ">>" with a file, or ">&" with a descriptor
	Target     string
}

// inShell are the builtins that bash executes itself. None of them evaluates an argument.
var inShell = strings.Fields("cd echo pwd true false : exit")

// builtins are the other builtins without a program of the same name. A call would fail: exec
// searches for a program.
var builtins = strings.Fields(". alias bg bind break builtin caller command compgen complete compopt continue declare" +
	" dirs disown enable eval exec export fc fg getopts hash help history jobs let local logout mapfile popd pushd" +
	" read readarray readonly return set shift shopt source suspend times trap type typeset ulimit umask unalias" +
	" unset wait")

// keywords are the reserved words of bash.
var keywords = strings.Fields("if then elif else fi case esac for select while until do done function time { } ! [[ ]] coproc")

// checkName checks the name of a command. The shape has its unquoted characters.
func checkName(w Word, shape string) *Error {
	switch {
	case strings.Contains(shape, "="):
		return errAssignment
	case w.Text == "" || w.IsGlob():
		return errName
	case slices.Contains(keywords, shape):
		return &Error{fmt.Sprintf("the keyword %s", shape), "write plain commands, one after another"}
	case slices.Contains(builtins, w.Text):
		return &Error{fmt.Sprintf("%s, which changes the shell itself", w.Text), "use only programs, cd, echo, pwd, true, false and exit"}
	}

	return nil
}

// String returns the text that bash executes.
func (s Script) String() string {
	var b strings.Builder
	for i, c := range s {
		if i > 0 {
			b.WriteString(" " + c.After + " ")
		}

		c.write(&b, len(s) > 1)
	}

	return b.String()
}

func (c *Command) write(b *strings.Builder, several bool) {
	program := !slices.Contains(inShell, c.Words[0].Text)
	if program && several { // exec replaces the shell
		b.WriteByte('(')
	}

	if program {
		b.WriteString("'exec' -- ")
	}

	for i, w := range c.Words {
		if i > 0 {
			b.WriteByte(' ')
		}

		w.write(b)
	}

	for _, r := range c.Redirects {
		b.WriteString(" " + r.Descriptor + r.Operator)
		quote(b, r.Target)
	}

	if program && several {
		b.WriteByte(')')
	}
}

func (w Word) write(b *strings.Builder) {
	text := w.Text
	for _, glob := range w.globs {
		before, after, _ := strings.Cut(text, Hole)
		if before != "" {
			quote(b, before)
		}

		b.WriteString(glob)
		text = after
	}

	if text != "" || len(w.globs) == 0 {
		quote(b, text)
	}
}

func quote(b *strings.Builder, text string) {
	b.WriteByte('\'')
	b.WriteString(strings.ReplaceAll(text, "'", `'\''`))
	b.WriteByte('\'')
}

// Error is the reason why a text cannot be read.
type Error struct {
	Construct string // such as "a here-document"
	Advice    string // how to write the command
}

func (e *Error) Error() string { return e.Construct + ": " + e.Advice }

var (
	errTooLong      = &Error{"more than 64 KiB of text", "write the text to a file, and use the file"}
	errControl      = &Error{"a control character, or text that is not UTF-8", "leave it out; lines end with a newline only"}
	errQuote        = &Error{"a quote that is not closed", "close it"}
	errEnd          = &Error{"a backslash at the end", "leave it out"}
	errIncomplete   = &Error{"an operator without a command before or after it", "write a command on both sides"}
	errBackground   = &Error{"the operator &", "run the command in the foreground, and put an & that is text in quotes"}
	errPipeBoth     = &Error{"the operator |&", "write 2>&1 |"}
	errParenthesis  = &Error{"an unquoted parenthesis (a subshell, a function or a pattern)", "write the commands as a list, and put parentheses that are text in quotes"}
	errSubstitution = &Error{"a command substitution", "run the inner command in a call of its own, and write its output as text"}
	errProcess      = &Error{"a process substitution", "use a pipe, or a file"}
	errVariable     = &Error{"an expansion that begins with $", "write the value itself, or put a $ that is text in single quotes"}
	errDollarQuote  = &Error{`a quote that begins with $' or $"`, "use plain quotes"}
	errHereDocument = &Error{"a here-document (<<)", "write the text to a file with Write, and use the file as an argument or with <"}
	errHereString   = &Error{"a here-string (<<<)", "use echo 'text' and a pipe"}
	errDescriptor   = &Error{"a redirection of another descriptor than 0, 1 and 2", "redirect only these, and put a space between a number and < or >"}
	errRedirect     = &Error{"a redirection other than <, >, >>, 2>&1 and &>", "use one of these"}
	errTarget       = &Error{"a redirection whose file is a glob, or missing", "write the name of the file"}
	errNoCommand    = &Error{"a redirection without a command", "write the command before it"}
	errAssignment   = &Error{"an assignment", "write the value itself where it is used, or use env NAME=value before a program"}
	errTilde        = &Error{"a ~ that stands for a directory", "write the whole path, or put a ~ that is text in quotes"}
	errBraces       = &Error{"a brace expansion", "write each word, or put braces that are text in quotes"}
	errSet          = &Error{"brackets that are not a simple set such as [a-z]", "put brackets that are text in quotes"}
	errName         = &Error{"a command whose name is empty or a glob", "write the name"}
	errSpace        = &Error{"an unusual space character", "use plain spaces, or put it in quotes"}
)
