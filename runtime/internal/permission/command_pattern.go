package permission

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/seed93082962/agenthost/runtime/internal/permission/shell"
)

// commandPattern is a pattern over simple commands.
type commandPattern struct {
	lines []string // patterns for whole commands, to allow
	words []string // patterns for the words that occur in a command, to deny
}

func parseCommandPattern(text string) (pattern, error) {
	if strings.ContainsAny(text, "\"'`") || strings.Contains(text, "$(") {
		return nil, errors.New("a Bash pattern is compared with words after the shell has removed the quotes: " +
			"it contains no quotes and no substitutions")
	}

	fields := strings.Fields(text)
	if slices.ContainsFunc(fields, func(f string) bool { return strings.Trim(f, "|&;<>()") == "" || strings.HasSuffix(f, ";") }) {
		return nil, errors.New("a Bash pattern is compared with each simple command: it contains no operators")
	}

	text = strings.Join(fields, " ")
	var p commandPattern
	if name, ok := strings.CutSuffix(text, ":*"); ok {
		if name == "" {
			return nil, errors.New("a Bash pattern that ends in :* begins with a command")
		}

		p.lines = append(p.lines, text)
		text = strings.TrimSpace(name) + " *"
	}

	p.lines = append(p.lines, text)
	if bare, ok := strings.CutSuffix(text, " *"); ok {
		p.lines = append(p.lines, bare)
	}

	p.words = patternWords(text)
	return p, nil
}

// patternWords returns the words that a deny pattern searches for. Its name counts without a path.
func patternWords(text string) []string {
	var words []string
	for w := range strings.FieldsSeq(text) {
		fields := strings.FieldsFunc(w, func(c rune) bool { return c != '*' && separates(c) })
		if len(fields) == 0 { // such as "[" or "!"
			fields = []string{w}
		}

		words = append(words, fields...)
	}

	words = slices.DeleteFunc(words, func(w string) bool { return strings.Trim(w, "*") == "" })
	if len(words) > 0 {
		if name := baseName(words[0]); name != "" && !strings.Contains(name, "*") {
			words[0] = name
		}
	}

	return words
}

func (p commandPattern) allows(c *call, part int) bool {
	line := c.script().lines[part]
	return slices.ContainsFunc(p.lines, func(form string) bool { return matches(form, line) })
}

// denies reports whether the words of the pattern occur in a simple command, or the command cannot
// be read. The comparison errs on the side of denying: it does not depend on which program runs
// another, or how. A deny pattern always denies every command that it would allow as an allow
// pattern.
func (p commandPattern) denies(c *call) bool {
	s := c.script()
	return s.unreadable != nil || slices.ContainsFunc(s.lists, p.occursIn) || slices.ContainsFunc(s.lines, func(line string) bool {
		return slices.ContainsFunc(p.lines, func(form string) bool { return overlaps(form, line) })
	})
}

func (p commandPattern) occursIn(words []string) bool {
	left := p.words
	for _, w := range words {
		left = consume(w, left)
	}

	return len(left) == 0
}

// consume returns the rest of a deny pattern after a word. It removes the leading words of the
// pattern that occur in the word, in the order of the pattern.
func consume(word string, pattern []string) []string {
	left := consumeFields(word, pattern)
	if strings.ContainsAny(word, `\"'`) {
		for _, code := range []*strings.Replacer{withoutQuotes, withoutEscapes} {
			if other := consumeFields(code.Replace(word), pattern); len(other) < len(left) {
				left = other
			}
		}
	}

	if len(left) > 0 && len(left) == len(pattern) && countsAs(word, left[0]) {
		left = left[1:]
	}

	return left
}

// An argument may be code: sh -c 'g""it push', printf 'true\ngit push' | sh.
var (
	withoutQuotes  = strings.NewReplacer("\\\n", "", `\`, "", `"`, "", "'", "")
	withoutEscapes = strings.NewReplacer(`\n`, " ", `\r`, " ", `\t`, " ")
)

// consumeFields is consume for the fields of a text.
func consumeFields(text string, pattern []string) []string {
	for field := range strings.FieldsFuncSeq(text, separates) {
		glob := strings.Contains(field, shell.Hole)
		for len(pattern) > 0 && countsAs(field, pattern[0]) {
			if pattern = pattern[1:]; !glob { // a glob may match several words
				break
			}
		}
	}

	return pattern
}

// separates reports whether a character ends a field. A field consists of the characters of command
// names. The other characters separate words in code, in options and in lists.
func separates(c rune) bool {
	return !unicode.IsLetter(c) && !unicode.IsDigit(c) && !strings.ContainsRune("_-./"+shell.Hole, c)
}

// countsAs reports whether a word counts as a word of a deny pattern: the whole word, the end of a
// path, the end of an option, or the text that a glob matches.
func countsAs(word, pattern string) bool {
	if strings.Contains(word, shell.Hole) || strings.HasPrefix(word, "-") {
		return overlaps("*"+pattern, word)
	}

	return matches(pattern, word) || matches("*/"+pattern, word)
}

func baseName(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }

// matches reports whether a text matches a pattern, in which "*" matches any text.
func matches(pattern, text string) bool {
	star, from := -1, 0 // the last *, and where in text it ends for now
	i := 0
	for j := 0; j < len(text); {
		switch {
		case i < len(pattern) && pattern[i] == '*':
			star, from = i, j
			i++
		case i < len(pattern) && pattern[i] == text[j]:
			i++
			j++
		case star >= 0:
			from++
			i, j = star+1, from
		default:
			return false
		}
	}

	return strings.Trim(pattern[i:], "*") == ""
}

// overlaps reports whether a text may match a pattern. A hole in the text is any text, too.
func overlaps(pattern, text string) bool {
	if !strings.Contains(text, shell.Hole) {
		return matches(pattern, text)
	}

	// row[i] reports whether the text read so far may match pattern[:i].
	row, next := make([]bool, len(pattern)+1), make([]bool, len(pattern)+1)
	row[0] = true
	stars(pattern, row)
	for j := range len(text) {
		if text[j] == shell.Hole[0] {
			reached := false
			for i := range row {
				reached = reached || row[i]
				row[i] = reached
			}

			continue
		}

		next[0] = false
		for i := range len(pattern) {
			next[i+1] = pattern[i] == '*' && row[i+1] || pattern[i] == text[j] && row[i]
		}

		stars(pattern, next)
		row, next = next, row
	}

	return row[len(pattern)]
}

// stars lets each "*" of the pattern match the empty text.
func stars(pattern string, row []bool) {
	for i := range len(pattern) {
		row[i+1] = row[i+1] || pattern[i] == '*' && row[i]
	}
}

// script is a Bash command as the policy judges it.
type script struct {
	unreadable *shell.Error // why the command cannot be read
	opaque     *shell.Error // why no pattern and no mode approves the command
	commands   shell.Script
	lines      []string   // for each command, the text that allow patterns are compared with
	lists      [][]string // for each command, the words that deny patterns are compared with
}

func readScript(text string) *script {
	s := &script{}
	commands, err := shell.Read(text)
	if err != nil {
		errors.As(err, &s.unreadable)
		s.opaque = s.unreadable
		return s
	}

	s.commands = commands
	for _, c := range commands {
		var words []string
		for _, w := range c.Words {
			words = append(words, w.Text)
		}

		s.lines = append(s.lines, spaces.Replace(strings.Join(words, separator)))
		for _, r := range c.Redirects {
			words = append(words, r.Target)
			if s.opaque == nil {
				s.opaque = opens(r)
			}
		}

		s.lists = append(s.lists, words)
	}

	return s
}

// separator separates words until the white space inside of words is replaced. No word contains it.
const separator = "\x02"

// spaces marks white space inside a word, as opposed to white space between words.
var spaces = strings.NewReplacer(" ", "\x00", "\t", "\x00", "\n", "\x00", separator, " ")

const devNull = "/dev/null"

// opens returns why no pattern approves a redirection, or nil. Another command of the script may
// change what a path leads to, for example cd, and bash opens connections for /dev/tcp/...
func opens(r shell.Redirect) *shell.Error {
	switch {
	case r.Target == devNull, r.Operator == ">&":
		return nil
	case r.Operator != "<":
		return &shell.Error{Construct: "a redirection into a file other than /dev/null", Advice: "write files with the tool Write"}
	case strings.HasPrefix(r.Target, "/dev/"):
		return &shell.Error{Construct: "a redirection from a device", Advice: "read a file, or /dev/null"}
	}

	return nil
}

// commandError is a reason with the construct because of which a command is not approved.
type commandError struct {
	reason error
	text   string
}

func (e *commandError) Error() string { return e.text }
func (e *commandError) Unwrap() error { return e.reason }

// explain returns a reason with the construct in the command that caused it, if there is one.
func (c *call) explain(reason error) error {
	s := c.cachedScript
	switch {
	case s == nil || s.opaque == nil:
		return reason
	case reason == ErrDenied && s.unreadable == nil: //nolint:errorlint // it is never wrapped
		return reason
	case reason == ErrDenied: //nolint:errorlint // it is never wrapped
		return &commandError{reason, fmt.Sprintf("disallowedTools has patterns for Bash, which are compared only with plain commands. "+
			"This command contains %v", s.opaque)}
	}

	return &commandError{reason, fmt.Sprintf("no pattern in allowedTools and no permission mode approves a command that contains %v", s.opaque)}
}
