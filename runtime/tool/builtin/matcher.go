package builtin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	maxLiterals = 16      // searching for more literals is slower than matching every line
	maxRegexp   = 4000    // bytes
	maxProgram  = 20_000  // instructions
	longMatch   = 1 << 22 // instructions times bytes; a longer match checks the context
)

// matcher finds the lines that match a regular expression. If every match contains one of a few
// literals, it searches for those first, which is many times faster than matching every line.
type matcher struct {
	re       *regexp.Regexp
	size     int      // instructions
	literals [][]byte // if empty, every line is matched
	fold     bool     // letter case is ignored; literals are in lower case
	exact    bool     // every line that contains the literal matches
}

func newMatcher(pattern string, ignoreCase bool) (*matcher, error) {
	if len(pattern) > maxRegexp {
		return nil, fmt.Errorf("the pattern is longer than %d bytes", maxRegexp)
	}
	flags := syntax.Perl
	if ignoreCase {
		flags |= syntax.FoldCase
	}
	tree, err := syntax.Parse(pattern, flags)
	if syntaxErr, ok := errors.AsType[*syntax.Error](err); ok {
		return nil, fmt.Errorf("the pattern is not a regular expression in RE2 syntax: %s: %s", syntaxErr.Code, display(syntaxErr.Expr))
	} else if err != nil {
		return nil, err
	}
	if matchesNewline(tree) {
		return nil, errors.New("the pattern contains a line break, but matches are within one line: " +
			"search for one of its lines, and use -A for the lines after it")
	}
	program, err := syntax.Compile(tree.Simplify())
	if err != nil || len(program.Inst) > maxProgram {
		return nil, errors.New("the pattern is too large: use fewer repetitions")
	}
	if ignoreCase {
		pattern = "(?i:" + pattern + ")"
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, fmt.Errorf("the pattern is not a regular expression in RE2 syntax: %w", err)
	}
	m := &matcher{re: re, size: len(program.Inst), fold: ignoreCase}
	for _, literal := range requiredLiterals(tree, ignoreCase) {
		m.literals = append(m.literals, []byte(literal))
	}
	m.exact = tree.Op == syntax.OpLiteral && !ignoreCase && len(m.literals) == 1
	return m, nil
}

func matchesNewline(re *syntax.Regexp) bool {
	return re.Op == syntax.OpLiteral && slices.Contains(re.Rune, '\n') || slices.ContainsFunc(re.Sub, matchesNewline)
}

// requiredLiterals returns literals of which every match contains at least one, or nil.
func requiredLiterals(re *syntax.Regexp, fold bool) []string {
	switch re.Op {
	case syntax.OpLiteral:
		return literal(re, fold)
	case syntax.OpCapture, syntax.OpPlus:
		return requiredLiterals(re.Sub[0], fold)
	case syntax.OpRepeat:
		if re.Min > 0 {
			return requiredLiterals(re.Sub[0], fold)
		}
	case syntax.OpConcat:
		var best []string
		for _, sub := range re.Sub {
			if set := requiredLiterals(sub, fold); shortest(set) > shortest(best) {
				best = set
			}
		}
		return best
	case syntax.OpAlternate:
		var all []string
		for _, sub := range re.Sub {
			set := requiredLiterals(sub, fold)
			if len(set) == 0 || len(all)+len(set) > maxLiterals {
				return nil
			}
			all = append(all, set...)
		}
		return all
	}
	return nil
}

func shortest(set []string) int {
	if len(set) == 0 {
		return 0
	}
	return len(slices.MinFunc(set, func(a, b string) int { return len(a) - len(b) }))
}

func literal(re *syntax.Regexp, fold bool) []string {
	text := string(re.Rune)
	if strings.ContainsRune(text, utf8.RuneError) { // it also matches invalid UTF-8
		return nil
	}
	switch {
	case !fold && re.Flags&syntax.FoldCase == 0:
		return []string{text}
	case !fold: // the text is not converted to lower case
		return nil
	}
	// k and s have a third case, the Kelvin sign and the long s. Other letters may have more cases.
	longest, lower := "", string(appendLower(nil, []byte(text)))
	for run := range strings.FieldsFuncSeq(lower, func(r rune) bool { return r >= utf8.RuneSelf || r == 'k' || r == 's' }) {
		if len(run) > len(longest) {
			longest = run
		}
	}
	if longest == "" {
		return nil
	}
	return []string{longest}
}

// line reports whether a line matches, with or without "\r" at its end.
func (m *matcher) line(ctx context.Context, text []byte) bool {
	bare := bytes.TrimSuffix(text, []byte("\r"))
	return m.part(ctx, bare) || len(bare) < len(text) && m.part(ctx, text)
}

func (m *matcher) part(ctx context.Context, text []byte) bool {
	if len(text)*m.size < longMatch {
		return m.re.Match(text)
	}
	return m.re.MatchReader(&runes{bytes.NewReader(text), ctx})
}

// runes is a reader that fails when its context ends.
type runes struct {
	*bytes.Reader
	ctx context.Context //nolint:containedctx // for one match
}

func (r *runes) ReadRune() (rune, int, error) {
	if r.ctx.Err() != nil {
		return 0, 0, r.ctx.Err()
	}
	return r.Reader.ReadRune()
}

// appendLower appends text in lower case. Only ASCII letters are converted.
func appendLower(out, text []byte) []byte {
	from := len(out)
	out = append(out, text...)
	for i, c := range out[from:] {
		if 'A' <= c && c <= 'Z' {
			out[from+i] = c + ('a' - 'A')
		}
	}
	return out
}
