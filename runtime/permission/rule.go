package permission

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// The built-in tools about which there is more to know than their name.
const (
	toolRead     = "Read"
	toolWrite    = "Write"
	toolEdit     = "Edit"
	toolGlob     = "Glob"
	toolGrep     = "Grep"
	toolBash     = "Bash"
	toolWebFetch = "WebFetch"
	toolSkill    = "Skill"
	toolTask     = "Task"
)

// rule is a tool, or the tools of a server, with a pattern or without.
type rule struct {
	tool    string
	server  bool    // tool is what the names of a server's tools begin with
	pattern pattern // nil: whatever the input
}

// pattern is what stands in the parentheses. A call has parts, each of which some pattern has to
// allow; a pattern denies it as a whole.
type pattern interface {
	allows(c *call, part int) bool
	denies(c *call) bool
}

// unknown is a pattern of a tool whose input nobody here can read.
type unknown struct{}

func (unknown) allows(*call, int) bool { return false }
func (unknown) denies(*call) bool      { return true }

func readRule(text string) (rule, error) {
	name, inner, found := strings.Cut(strings.TrimSpace(text), "(")
	name = strings.TrimSpace(name)
	r := rule{tool: name}
	if name == "" {
		return r, errors.New("it names no tool")
	}
	if server, ok := strings.CutPrefix(name, "mcp__"); ok {
		if open, ok := strings.CutSuffix(server, "__*"); ok {
			name, r.tool, r.server = open, "mcp__"+open+"__", true
		} else if server != "" && !strings.Contains(server, "__") {
			r.tool, r.server = name+"__", true
		}
		if name == "" || name == "mcp__" {
			return r, errors.New("it names no server")
		}
	}
	if strings.ContainsRune(name, '*') {
		return r, errors.New("in a tool's name * stands only at the end of mcp__server__*")
	}
	if strings.ContainsFunc(name, func(c rune) bool { return unicode.IsSpace(c) || unicode.IsControl(c) || strings.ContainsRune("(),", c) }) {
		return r, errors.New("a rule is one tool name, or one with a pattern in parentheses")
	}
	if !found {
		return r, nil
	}
	inner, closed := strings.CutSuffix(inner, ")")
	inner = strings.TrimSpace(inner)
	switch {
	case !closed:
		return r, errors.New("its parenthesis is not closed at the end")
	case inner == "":
		return r, errors.New("its pattern is empty: for any input leave the parentheses out")
	case strings.ContainsFunc(inner, unicode.IsControl):
		return r, errors.New("its pattern has a control character in it")
	}
	var err error
	switch r.tool {
	case toolRead, toolEdit, toolWrite:
		r.pattern, err = readGlob(inner)
	case toolBash:
		r.pattern, err = readPhrase(inner)
	case toolWebFetch:
		r.pattern, err = readDomain(inner)
	case toolSkill, toolTask:
		r.pattern = title(inner)
	default:
		r.pattern = unknown{}
	}
	return r, err
}

func (r *rule) names(tool string) bool {
	if r.server {
		return strings.HasPrefix(tool, r.tool)
	}
	return r.tool == tool || r.tool == toolEdit && tool == toolWrite
}

// lists are the rules of an agent, or what narrows them.
type lists struct {
	allow, deny []rule // a nil allow restricts nothing
}

func readLists(allowed, disallowed []string) (lists, error) {
	allow, wrong := readRules("allowedTools", allowed)
	deny, more := readRules("disallowedTools", disallowed)
	return lists{allow, deny}, errors.Join(append(wrong, more...)...)
}

func readRules(list string, texts []string) ([]rule, []error) {
	if texts == nil {
		return nil, nil
	}
	rules := make([]rule, 0, len(texts))
	var wrong []error
	for _, text := range texts {
		r, err := readRule(text)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("read rule %q of %s: %w", text, list, err))
		}
		rules = append(rules, r)
	}
	return rules, wrong
}

func (l *lists) offers(tool string) bool {
	named := func(r rule) bool { return r.names(tool) }
	return !slices.ContainsFunc(l.deny, func(r rule) bool { return r.pattern == nil && named(r) }) &&
		(l.allow == nil || slices.ContainsFunc(l.allow, named))
}

func (l *lists) denies(c *call) bool {
	return slices.ContainsFunc(l.deny, func(r rule) bool {
		return r.names(c.tool) && (r.pattern == nil || r.pattern.denies(c))
	})
}

// permits returns nil if the allowed rules have nothing against the call.
func (l *lists) permits(c *call) error {
	if l.allow == nil {
		return nil
	}
	var patterns []pattern
	for i := range l.allow {
		switch r := &l.allow[i]; {
		case !r.names(c.tool):
		case r.pattern == nil:
			return nil
		default:
			patterns = append(patterns, r.pattern)
		}
	}
	if len(patterns) == 0 {
		return ErrNotListed
	}
	parts := c.parts()
	for part := range parts {
		if !slices.ContainsFunc(patterns, func(p pattern) bool { return p.allows(c, part) }) {
			return ErrPattern
		}
	}
	if parts == 0 {
		return ErrPattern
	}
	return nil
}
