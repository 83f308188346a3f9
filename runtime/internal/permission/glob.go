package permission

import (
	"errors"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"
	"golang.org/x/text/unicode/norm"
)

// glob is a pattern over paths relative to the working directory.
type glob struct {
	text     string // without a leading "/" or "./" and without a trailing "/" or "/**"
	anchored bool   // it begins at the working directory; otherwise it is one name at any depth
	inside   bool   // it matches what is below a directory, not the directory
	literal  bool   // it has no special characters
	folded   string // text as foldLetters returns it
}

func parseGlob(text string) (pattern, error) {
	switch {
	case strings.HasPrefix(text, "//"), strings.HasPrefix(text, "~/"), text == "~", slices.Contains(strings.Split(text, "/"), ".."):
		return nil, errors.New("a path pattern is relative to the working directory, also with a leading /, and cannot leave it")
	case strings.Count(text, "{") > 4 || strings.Count(text, ",") > 32: // they multiply the time of a match
		return nil, errors.New("it has too many alternatives: use several rules")
	case strings.HasPrefix(text, "!"):
		return nil, errors.New("a path pattern has no negation: use the other list")
	}

	g := glob{text: text}
	for {
		switch {
		case strings.HasPrefix(g.text, "./"):
			g.text, g.anchored = g.text[2:], true
		case strings.HasPrefix(g.text, "/"):
			g.text, g.anchored = g.text[1:], true
		case strings.HasSuffix(g.text, "/**"):
			g.text, g.inside, g.anchored = strings.TrimSuffix(g.text, "/**"), true, true
		case strings.HasSuffix(g.text, "/") && !strings.HasSuffix(g.text, `\/`):
			g.text, g.inside = strings.TrimSuffix(g.text, "/"), true
		case g.text == "" || !doublestar.ValidatePattern(g.text):
			return nil, errors.New("its syntax is invalid")
		default:
			g.anchored = g.anchored || strings.Contains(g.text, "/")
			g.literal = isLiteral(g.text)
			g.folded = foldLetters(g.text)
			return g, nil
		}
	}
}

func isLiteral(text string) bool { return !strings.ContainsAny(text, `*?[]{}\`) }

// covers reports whether the glob matches a clean path or a directory that contains it. A glob such
// as "tmp/**" does not match the directory itself, unless self is set.
func (g glob) covers(p string, self bool) bool {
	switch {
	case p == ".":
		return false
	case g.anchored && g.literal:
		rest, ok := strings.CutPrefix(p, g.text)
		return ok && (strings.HasPrefix(rest, "/") || rest == "" && (self || !g.inside))
	case g.anchored && g.inside && !self:
		return doublestar.MatchUnvalidated(g.text+"/*/**", p)
	case g.anchored:
		return doublestar.MatchUnvalidated(g.text+"/**", p)
	}

	for more := true; more; {
		var name string
		if name, p, more = strings.Cut(p, "/"); !more && g.inside && !self {
			return false
		}

		if g.literal && name == g.text || !g.literal && doublestar.MatchUnvalidated(g.text, name) {
			return true
		}
	}

	return false
}

// mayCover is covers as a file system compares names, for a rule that denies.
func (g glob) mayCover(p string) bool {
	folded := g
	folded.text = g.folded
	return g.covers(p, true) || folded.covers(fold(p), true)
}

// names reports whether the glob names a protected file or directory: the glob up to a literal name
// that is its name matches its path.
func (g glob) names(protected string) bool {
	name := path.Base(protected)
	text := g.text
	if !g.anchored {
		text = "**/" + text
	}

	for end := range prefixes(text) {
		if isLiteral(name) && strings.HasSuffix("/"+text[:end], "/"+name) && doublestar.MatchUnvalidated(text[:end], protected) {
			return true
		}
	}

	return false
}

func (g glob) allows(c *call, _ int) bool {
	t := c.target()
	return !t.unknown && t.inReal && g.covers(t.real, false)
}

// denies reports whether the glob matches the path of a call. A path in the working directory that
// leads outside, or nowhere, is denied by every glob.
func (g glob) denies(c *call) bool {
	t := c.target()
	return t.unknown || t.long || g.matchesTarget(t) || t.inText && !t.inReal
}

// matchesTarget reports whether the glob covers a path as written or where it leads. Outside the
// working directory, only globs for any depth apply.
func (g glob) matchesTarget(t *target) bool {
	covers := func(p string, inside bool) bool {
		return p != "" && (inside || !g.anchored) && g.mayCover(strings.TrimPrefix(p, "/"))
	}
	return covers(t.text, t.inText) || covers(t.real, t.inReal)
}

// hiding holds the rules that hide files from Read.
type hiding struct {
	all  bool     // Read is denied
	deny []glob   // of rules that deny
	only [][]glob // for each allowed list with patterns for Read: one of them must match
}

func newHiding(all []ruleLists) hiding {
	var h hiding
	for _, l := range all {
		for _, r := range l.deny {
			if g, ok := r.pattern.(glob); ok && r.names(toolRead, "") {
				h.deny = append(h.deny, g)
			} else if r.names(toolRead, "") {
				h.all = true
			}
		}

		var shown []glob
		unrestricted := false
		for _, r := range l.allow {
			if g, ok := r.pattern.(glob); ok && r.names(toolRead, "") {
				shown = append(shown, g)
			} else if r.names(toolRead, "") {
				unrestricted = true
			}
		}

		if shown != nil && !unrestricted {
			h.only = append(h.only, shown)
		}
	}

	return h
}

// any reports whether a rule may hide a file.
func (h *hiding) any() bool { return h.all || h.deny != nil || h.only != nil }

// denies reports whether a rule denies a path and everything below it.
func (h *hiding) denies(p string) bool {
	return h.all || slices.ContainsFunc(h.deny, func(g glob) bool { return g.mayCover(p) })
}

func (h *hiding) hides(p string) bool {
	if !h.any() || h.all {
		return h.all
	}

	directory := strings.HasSuffix(p, "/")
	p = path.Clean(p)
	if outside(p) || h.denies(p) {
		return true
	}

	if directory {
		return false
	}

	for _, shown := range h.only {
		if !slices.ContainsFunc(shown, func(g glob) bool { return g.covers(p, false) }) {
			return true
		}
	}

	return false
}

// fold returns a path as file systems compare names that ignore letter case and the form of
// characters, as those of macOS and Windows do: also without characters that are not visible, dots
// and spaces at the end of a name, and the name of a stream after a colon.
func fold(p string) string {
	if isFolded(p) {
		return p
	}

	names := strings.Split(foldLetters(p), "/")
	for i, name := range names {
		name, _, _ = strings.Cut(name, ":")
		if trimmed := strings.TrimRight(name, " ."); trimmed != "" {
			name = trimmed
		}

		names[i] = name
	}

	return strings.Join(names, "/")
}

// isFolded reports whether fold returns a path unchanged. Most paths are plain.
func isFolded(p string) bool {
	for i := range len(p) {
		switch c := p[i]; {
		case c >= utf8.RuneSelf, 'A' <= c && c <= 'Z', c == ':':
			return false
		case (c == '.' || c == ' ') && (i+1 == len(p) || p[i+1] == '/'):
			return false
		}
	}

	return true
}

func foldLetters(text string) string { return strings.Map(foldRune, norm.NFD.String(text)) }

func foldRune(c rune) rune {
	if unicode.Is(unicode.Cf, c) {
		return -1
	}

	least := c
	for next := unicode.SimpleFold(c); next != c; next = unicode.SimpleFold(next) {
		least = min(least, next)
	}

	return unicode.ToLower(least)
}
