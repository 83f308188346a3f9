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
	maxLiterals = 16      // beyond, looking for each takes longer than matching every line
	maxRegexp   = 4000    // bytes
	maxProgram  = 20_000  // instructions
	longMatch   = 1 << 22 // instructions times bytes from which on a match can be interrupted, which makes it slower
)

// matcher tells which lines match a regular expression. Most lines it passes over without looking at them: every match has
// one of a few literals in it, and finding those is many times as fast.
type matcher struct {
	re       *regexp.Regexp
	size     int      // instructions
	literals [][]byte // none: every line has to be looked at
	fold     bool     // literals are in lower case and stand for both
	exact    bool     // a line that has a literal in it matches
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
	if wrong, ok := errors.AsType[*syntax.Error](err); ok {
		return nil, fmt.Errorf("the pattern is no regular expression in RE2 syntax: %s: %s", wrong.Code, shown(wrong.Expr))
	} else if err != nil {
		return nil, err
	}
	if breaks(tree) {
		return nil, errors.New("the pattern has a line break in it, and one line is searched at a time: " +
			"search for one of its lines, with -A for those after it")
	}
	program, err := syntax.Compile(tree.Simplify())
	if err != nil || len(program.Inst) > maxProgram {
		return nil, errors.New("the pattern is too large: give lower numbers of repetitions")
	}
	if ignoreCase {
		pattern = "(?i:" + pattern + ")"
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, fmt.Errorf("the pattern is no regular expression in RE2 syntax: %w", err)
	}
	m := &matcher{re: re, size: len(program.Inst), fold: ignoreCase}
	for _, literal := range required(tree, ignoreCase) {
		m.literals = append(m.literals, []byte(literal))
	}
	m.exact = tree.Op == syntax.OpLiteral && !ignoreCase && len(m.literals) == 1
	return m, nil
}

func breaks(re *syntax.Regexp) bool {
	return re.Op == syntax.OpLiteral && slices.Contains(re.Rune, '\n') || slices.ContainsFunc(re.Sub, breaks)
}

// required answers literals of which every match has at least one in it, or none.
func required(re *syntax.Regexp, fold bool) []string {
	switch re.Op {
	case syntax.OpLiteral:
		return literal(re, fold)
	case syntax.OpCapture, syntax.OpPlus:
		return required(re.Sub[0], fold)
	case syntax.OpRepeat:
		if re.Min > 0 {
			return required(re.Sub[0], fold)
		}
	case syntax.OpConcat:
		var best []string
		for _, sub := range re.Sub {
			if set := required(sub, fold); shortest(set) > shortest(best) {
				best = set
			}
		}
		return best
	case syntax.OpAlternate:
		var all []string
		for _, sub := range re.Sub {
			set := required(sub, fold)
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
	if strings.ContainsRune(text, utf8.RuneError) { // it matches bytes that are not UTF-8 too
		return nil
	}
	switch {
	case !fold && re.Flags&syntax.FoldCase == 0:
		return []string{text}
	case !fold: // the text is not looked at in lower case
		return nil
	}
	// k and s have a third case, the Kelvin sign and the long s; what is not ASCII may have any.
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

// line says whether a line matches. An \r at its end is part of it or not, as the pattern wants it.
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

// runes ends early when its context does.
type runes struct {
	*bytes.Reader
	ctx context.Context //nolint:containedctx // it lives as long as one match
}

func (r *runes) ReadRune() (rune, int, error) {
	if r.ctx.Err() != nil {
		return 0, 0, r.ctx.Err()
	}
	return r.Reader.ReadRune()
}

// appendLower appends text with the ASCII letters in lower case.
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
