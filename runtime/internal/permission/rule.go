package permission

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"github.com/seed93082962/agenthost/internal/domain"
	"github.com/seed93082962/agenthost/internal/jsonlimit"
)

// The built-in tools that rules treat specially.
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

// rule names a tool or all tools of an MCP server. It may have a pattern.
type rule struct {
	text    string // as it was written
	tool    string
	server  bool    // tool is the prefix of the names of a server's tools
	pattern pattern // nil matches every input
}

// pattern is the part of a rule in parentheses. A deny pattern denies the whole call. An allow
// pattern allows one part of it, and every part of a call must be allowed by a pattern.
type pattern interface {
	allows(c *call, part int) bool
	denies(c *call) bool
}

// unsupportedPattern is a pattern for a tool that has no pattern language.
type unsupportedPattern struct{}

func (unsupportedPattern) allows(*call, int) bool { return false }
func (unsupportedPattern) denies(*call) bool      { return true }

func parseRule(text string) (rule, error) {
	name, inner, found := strings.Cut(strings.TrimSpace(text), "(")
	name = strings.TrimSpace(name)
	r := rule{text: text, tool: name}
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
		return r, errors.New("a tool name contains * only at the end of mcp__server__*")
	}

	if strings.ContainsFunc(name, func(c rune) bool { return unicode.IsSpace(c) || unicode.IsControl(c) || strings.ContainsRune("(),", c) }) {
		return r, errors.New("a rule is a tool name, or a tool name with a pattern in parentheses")
	}

	if !found {
		return r, nil
	}

	inner, closed := strings.CutSuffix(inner, ")")
	inner = strings.TrimSpace(inner)
	switch {
	case !closed:
		return r, errors.New("the last character must be the closing parenthesis")
	case inner == "":
		return r, errors.New("its pattern is empty: to match every input, remove the parentheses")
	case strings.ContainsFunc(inner, unicode.IsControl):
		return r, errors.New("its pattern contains a control character")
	}

	var err error
	switch r.tool {
	case toolRead, toolEdit, toolWrite:
		r.pattern, err = parseGlob(inner)
	case toolBash:
		r.pattern, err = parseCommandPattern(inner)
	case toolWebFetch:
		r.pattern, err = parseDomain(inner)
	case toolSkill, toolTask:
		r.pattern = namePattern(inner)
	default:
		r.pattern = unsupportedPattern{}
	}

	return r, err
}

// names reports whether the rule applies to a tool, which may have a second name. A rule for Edit
// also applies to Write.
func (r *rule) names(tool, original string) bool {
	if r.server {
		return strings.HasPrefix(tool, r.tool) // a second name has the same prefix
	}

	return r.tool == tool || original != "" && r.tool == original || r.tool == toolEdit && tool == toolWrite
}

// ruleLists are the allowed and the disallowed rules of an agent or a subagent.
type ruleLists struct {
	allow, deny []rule // a nil allow restricts nothing
}

// CheckRule returns why a text of a list of rules is not a rule, or nil.
func CheckRule(text string) error {
	_, err := parseRule(text)
	return err
}

func parseLists(allowed, disallowed []string) (ruleLists, error) {
	allow, errs := parseRules("allowedTools", allowed)
	deny, more := parseRules("disallowedTools", disallowed)
	return ruleLists{allow, deny}, errors.Join(append(errs, more...)...)
}

func parseRules(list string, texts []string) ([]rule, []error) {
	if texts == nil {
		return nil, nil
	}

	rules := make([]rule, 0, len(texts))
	var errs []error
	for _, text := range texts {
		r, err := parseRule(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("parse rule %q of %s: %w", text, list, err))
		}

		rules = append(rules, r)
	}

	return rules, errs
}

// namesToDeny reports whether a deny rule applies to a tool. The name of a tool for models has a
// hash while another tool has the name without one. A rule with the name without the hash denies it
// too: otherwise it would no longer deny the tool after a server has added the other one.
func (r *rule) namesToDeny(tool, original string) bool {
	return r.names(tool, original) || r.tool == withoutHash.Replace(original)
}

var withoutHash = strings.NewReplacer(".", "_", "/", "_")

func (l *ruleLists) offers(tool Tool) bool {
	return !slices.ContainsFunc(l.deny, func(r rule) bool { return r.pattern == nil && r.namesToDeny(tool.Name, tool.Original) }) &&
		(l.allow == nil || slices.ContainsFunc(l.allow, func(r rule) bool { return r.names(tool.Name, tool.Original) }))
}

// denies returns the first rule that denies a call.
func (l *ruleLists) denies(c *call) (string, bool) {
	for i := range l.deny {
		r := &l.deny[i]
		if r.namesToDeny(c.tool, c.original) && (r.pattern == nil || r.pattern.denies(c)) {
			return r.text, true
		}
	}

	return "", false
}

// permits returns nil if the allowed rules permit a call.
func (l *ruleLists) permits(c *call) error {
	if l.allow == nil {
		return nil
	}

	var patterns []pattern
	for i := range l.allow {
		switch r := &l.allow[i]; {
		case !r.names(c.tool, c.original):
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
		return c.explain(ErrPattern)
	}

	return nil
}

// site is a pattern over the host of a URL, in lower case: a host name, "*.host" or "*".
type site string

func parseDomain(text string) (pattern, error) {
	name, ok := strings.CutPrefix(text, "domain:")
	if text == "*" {
		name, ok = text, true
	}

	name = strings.TrimSuffix(domain.Lower(strings.TrimSpace(name)), ".")
	host := strings.TrimPrefix(name, "*.")
	switch {
	case !ok:
		return nil, errors.New("a WebFetch pattern is domain:example.com, domain:*.example.com or domain:*")
	case name != "*" && (!unambiguousHost(host) || strings.Contains(host, ":")):
		return nil, errors.New("a domain is a host name without a port, in its xn-- form if it is not ASCII; * may be its first label")
	}

	return site(name), nil
}

// unambiguousHost reports whether all URL parsers agree about a host.
func unambiguousHost(host string) bool {
	return host != "" && !strings.Contains("."+host+".", "..") && !strings.ContainsFunc(host, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.' && c != ':'
	})
}

func (d site) allows(c *call, _ int) bool {
	host, ok := c.host()
	return ok && (string(d) == host || d.matchesWildcard(host))
}

func (d site) denies(c *call) bool {
	host, ok := c.host()
	return !ok || string(d) == host || d.matchesWildcard(host) || strings.HasSuffix(host, "."+string(d))
}

func (d site) matchesWildcard(host string) bool {
	rest, ok := strings.CutPrefix(string(d), "*")
	return ok && strings.HasSuffix(host, rest)
}

// host returns the host of the call's URL, and whether it is unambiguous.
func (c *call) host() (string, bool) {
	var in struct {
		URL string `json:"url"`
	}
	if jsonlimit.Unmarshal(c.input, &in) != nil {
		return "", false
	}

	u, err := url.Parse(in.URL)
	if err != nil || u.User != nil || u.Opaque != "" || !strings.EqualFold(u.Scheme, "http") && !strings.EqualFold(u.Scheme, "https") {
		return "", false
	}

	host := strings.TrimSuffix(domain.Lower(u.Hostname()), ".")
	return host, unambiguousHost(host)
}
