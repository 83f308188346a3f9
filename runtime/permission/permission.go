// Package permission decides which tools a model is offered and which of its calls may run,
// from a permission mode and two lists of rules. There is nobody to ask: what is not allowed is
// refused.
//
// A rule names a tool, as in "Read", or a tool and a pattern over its input, as in "Read(*.md)".
// "mcp__files" and "mcp__files__*" name every tool of one MCP server. The input of a tool
// for which no pattern language is known cannot be read with certainty: a pattern then never
// allows and always denies.
package permission

import (
	"encoding/json"
	"errors"
	"strings"
)

// Mode says what may run that is on no list.
type Mode string

// The modes of the runtime API.
const (
	ModeDefault     Mode = "default"           // read-only tools
	ModeAcceptEdits Mode = "acceptEdits"       // read-only tools, and edits of files in the working directory
	ModeBypass      Mode = "bypassPermissions" // everything that is not denied
	ModePlan        Mode = "plan"              // read-only tools, and nothing else even if it is listed
	ModeDontAsk     Mode = "dontAsk"           // read-only tools
	ModeAuto        Mode = "auto"              // as acceptEdits, and what is known to change nothing
)

// Why a call is refused. The text is told to the model and to the caller.
var (
	ErrDenied    = errors.New("the tool is denied by disallowedTools")
	ErrNotListed = errors.New("the tool is not in allowedTools")
	ErrPattern   = errors.New("the call matches no pattern of the tool in allowedTools")
	ErrPlan      = errors.New("only read-only tools may run in plan mode")
	ErrMode      = errors.New("the permission mode lets only read-only tools run without being listed in allowedTools")
)

// Policy is a mode with its rules. Its zero value is the default mode without any.
type Policy struct {
	mode       Mode
	restricted bool // an allow list was given, if only an empty one
	allow      []rule
	deny       []rule
}

type rule struct {
	tool    string
	pattern bool // the rule has a pattern in parentheses
}

// New makes a policy. A nil list of allowed rules puts every tool into the pool, an empty one
// none. An unknown or empty mode is the default one.
func New(mode Mode, allowed, disallowed []string) *Policy {
	return &Policy{mode: mode, restricted: allowed != nil, allow: rules(allowed), deny: rules(disallowed)}
}

func rules(of []string) []rule {
	list := make([]rule, 0, len(of))
	for _, text := range of {
		name, _, found := strings.Cut(strings.TrimSpace(text), "(")
		list = append(list, rule{strings.TrimSpace(name), found})
	}
	return list
}

func (r rule) names(tool string) bool {
	if server, ok := strings.CutSuffix(r.tool, "__*"); ok && strings.HasPrefix(server, "mcp__") {
		return strings.HasPrefix(tool, server+"__")
	}
	return r.tool == tool ||
		strings.HasPrefix(r.tool, "mcp__") && strings.Count(r.tool, "__") == 1 && strings.HasPrefix(tool, r.tool+"__")
}

// Offers reports whether a model should be told of the tool at all.
func (p *Policy) Offers(tool string, readOnly bool) bool {
	for _, r := range p.deny {
		if r.names(tool) && !r.pattern {
			return false
		}
	}
	if p.mode == ModePlan && !readOnly {
		return false
	}
	return !p.restricted || p.listed(tool)
}

func (p *Policy) listed(tool string) bool {
	for _, r := range p.allow {
		if r.names(tool) {
			return true
		}
	}
	return false
}

// Check returns nil if the call may run, else why it may not.
func (p *Policy) Check(tool string, readOnly bool, _ json.RawMessage) error {
	for _, r := range p.deny {
		if r.names(tool) {
			return ErrDenied
		}
	}
	if p.mode == ModePlan && !readOnly {
		return ErrPlan
	}
	listed, free := false, false
	for _, r := range p.allow {
		if r.names(tool) {
			listed, free = true, free || !r.pattern
		}
	}
	switch {
	case listed && !free:
		return ErrPattern
	case listed:
		return nil
	case p.restricted:
		return ErrNotListed
	case readOnly, p.mode == ModeBypass:
		return nil
	}
	return ErrMode
}
