package permission

import (
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// glob is a pattern over paths relative to the working directory.
type glob struct {
	text     string // without what says that it is anchored, or about a directory
	anchored bool   // else it is matched against each name on the way
	inside   bool   // about what is below a directory, not about the directory
	literal  bool   // nothing in it has a special meaning
}

func readGlob(text string) (pattern, error) {
	switch {
	case strings.HasPrefix(text, "//"), strings.HasPrefix(text, "~/"), text == "~", slices.Contains(strings.Split(text, "/"), ".."):
		return nil, errors.New("path patterns are relative to the working directory, where they begin with / or not at all, and do not leave it")
	case strings.Count(text, "{") > 4 || strings.Count(text, ",") > 32: // each one multiplies the time that a match may take
		return nil, errors.New("it has too many alternatives: split it into several rules")
	case strings.HasPrefix(text, "!"):
		return nil, errors.New("path patterns have no negation: use the other list")
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
			return nil, errors.New("it is no path pattern")
		default:
			g.anchored = g.anchored || strings.Contains(g.text, "/")
			g.literal = !strings.ContainsAny(g.text, `*?[]{}\`)
			return g, nil
		}
	}
}

// covers says whether a clean path, or a directory that it is in, matches. Whether it is itself the directory that the
// glob is about nobody knows: self says what then.
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

func (g glob) allows(c *call, _ int) bool {
	t := c.target()
	return !t.unclear && t.inReal && g.covers(t.real, false)
}

func (g glob) denies(c *call) bool {
	t := c.target()
	switch {
	case t.unclear, t.inText && g.covers(t.text, true), t.inReal && g.covers(t.real, true):
		return true
	case t.inReal:
		return false
	}
	// It leads outside, or nobody knows where. Outside, patterns for any depth count.
	return t.inText || !g.anchored && g.covers(strings.TrimPrefix(t.text, "/"), true)
}

// hiding is what rules hide from Read.
type hiding struct {
	all  bool
	deny []glob
	only [][]glob // a file is shown if each of these has a glob that allows it
}

func hidingOf(all []lists) hiding {
	var h hiding
	for _, l := range all {
		for _, r := range l.deny {
			if g, ok := r.pattern.(glob); ok && r.names(toolRead) {
				h.deny = append(h.deny, g)
			} else if r.names(toolRead) {
				h.all = true
			}
		}
		var shown []glob
		free := false
		for _, r := range l.allow {
			if g, ok := r.pattern.(glob); ok && r.names(toolRead) {
				shown = append(shown, g)
			} else if r.names(toolRead) {
				free = true
			}
		}
		if shown != nil && !free {
			h.only = append(h.only, shown)
		}
	}
	return h
}

// any says whether there is anything that could be hidden.
func (h *hiding) any() bool { return h.all || h.deny != nil || h.only != nil }

// denies says whether a path, and all below it, is hidden by a rule that denies.
func (h *hiding) denies(p string) bool {
	return h.all || slices.ContainsFunc(h.deny, func(g glob) bool { return g.covers(p, true) })
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
