package permission

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// Mode decides about calls that no rule lists.
type Mode string

// The modes of the runtime API.
const (
	ModeDefault     Mode = "default"           // read-only tools
	ModeAcceptEdits Mode = "acceptEdits"       // also Write and Edit in the working directory
	ModeBypass      Mode = "bypassPermissions" // everything that is not denied
	ModePlan        Mode = "plan"              // only read-only tools, even if others are listed
	ModeDontAsk     Mode = "dontAsk"           // read-only tools
	ModeAuto        Mode = "auto"              // acceptEdits, and Bash commands that only read
)

// The reasons why a call is denied. The model and the caller read the text.
var (
	ErrDenied    = errors.New("disallowedTools denies this call: do not try to do the same in another way, continue without it")
	ErrNotListed = errors.New("allowedTools does not list this tool: use one of the tools that are offered")
	ErrPattern   = errors.New("no pattern in allowedTools matches this call: each command of a list or pipeline must match")
	ErrProtected = errors.New("names that begin with a dot, and what links of such names lead to, may decide what a program " +
		"executes: only a pattern in allowedTools that names it, such as Edit(.github/**), approves the change, " +
		"and for commands sandbox.write, continue without it")
	ErrLongPath = errors.New("the path has more than 4,096 bytes or 256 names: use a shorter one")
	ErrPlan     = errors.New("the mode plan allows only read-only tools: read, and describe what you would change")
	ErrMode     = errors.New("the permission mode does not allow this call, and allowedTools does not list it: " +
		"use a read-only tool, or describe what you would have done")
)

// Config of a [Policy].
type Config struct {
	Mode Mode // Defaults to ModeDefault.

	// Allowed and Disallowed are lists of rules. A nil Allowed permits every tool, an empty one
	// none.
	Allowed, Disallowed []string

	// Resolve returns the path that a path from a tool's input leads to. The result is relative to
	// the working directory, has "/" and contains no links; "." is the directory itself. For a path
	// that does not exist, it is the path of the file that a write would create. Resolve fails for
	// a path outside the working directory. If Resolve is nil, paths are judged by their text, and
	// no file is examined.
	Resolve func(path string) (string, error)

	// CWD is the working directory, as an absolute path. It makes absolute paths relative.
	CWD string

	// AgentHome is a protected directory in CWD, such as ".agents".
	AgentHome string

	// Protected are other protected files and directories, such as the configuration of the
	// runtime. Relative paths are relative to CWD.
	Protected []string
}

// Policy is a mode with its rules. The zero value is the default mode without rules. A Policy is
// safe for concurrent use if Config.Resolve is.
type Policy struct {
	mode   Mode
	dir    directory
	lists  []ruleLists // All must permit a call. Only the first, the agent's own, pre-approves it.
	hiding hiding
}

// New returns the policy of a configuration. Its error names each invalid rule.
func New(cfg Config) (*Policy, error) {
	mode := cmp.Or(cfg.Mode, ModeDefault)
	switch mode {
	case ModeDefault, ModeAcceptEdits, ModeBypass, ModePlan, ModeDontAsk, ModeAuto:
	default:
		return nil, fmt.Errorf("make policy: unknown permission mode %q", cfg.Mode)
	}

	lists, err := parseLists(cfg.Allowed, cfg.Disallowed)
	if err != nil {
		return nil, fmt.Errorf("make policy: %w", err)
	}

	p := &Policy{mode: mode, dir: newDirectory(cfg), lists: []ruleLists{lists}}
	p.hiding = newHiding(p.lists)
	return p, nil
}

// Narrow returns the policy of a subagent. It permits a call if p permits it and the given lists
// permit it, too. The lists never add permissions; a nil allowed restricts nothing.
func (p *Policy) Narrow(allowed, disallowed []string) (*Policy, error) {
	lists, err := parseLists(allowed, disallowed)
	if err != nil {
		return nil, fmt.Errorf("narrow policy: %w", err)
	}

	narrow := *p
	if len(p.lists) == 0 { // the zero Policy: the new lists must not be first
		narrow.lists = []ruleLists{{}}
	}

	narrow.lists = append(slices.Clip(narrow.lists), lists)
	narrow.hiding = newHiding(narrow.lists)
	return &narrow, nil
}

// Tool describes a tool to a policy.
type Tool struct {
	Name string // as the model calls it

	// Original is the name that Name was made from, if they differ. A rule matches a tool by
	// either.
	Original string

	ReadOnly bool
}

// Offers reports whether a model is offered a tool.
func (p *Policy) Offers(tool Tool) bool {
	if p.mode == ModePlan && !tool.ReadOnly {
		return false
	}

	for i := range p.lists {
		if !p.lists[i].offers(tool) {
			return false
		}
	}

	return true
}

// Check decides whether a call may run. The error is nil, or one of the errors above.
//
// The returned input is the one that was judged. The caller must execute it instead of the given
// one, also if it overrides the error. It differs if a rule or the mode had to read a Bash command
// and could: then the command is written from the words that were judged. The path of Edit and
// Write is the one that it leads to, relative to the working directory and without links: the tool
// must not follow one that another program creates after the check.
//
// If ctx ends before the decision, the error is its cause.
func (p *Policy) Check(ctx context.Context, tool Tool, input json.RawMessage) (json.RawMessage, error) {
	c := &call{ctx: ctx, tool: tool.Name, original: tool.Original, input: input, dir: &p.dir}
	err := p.check(c, tool.ReadOnly)
	if ctx.Err() != nil {
		return input, context.Cause(ctx)
	}

	return c.judgedInput(), err
}

func (p *Policy) check(c *call, readOnly bool) error {
	if c.hasPath() && c.target().long {
		return ErrLongPath
	}

	if _, denied := p.denies(c); denied {
		return c.explain(ErrDenied)
	}

	if p.mode == ModePlan && !readOnly {
		return ErrPlan
	}

	for i := range p.lists {
		if err := p.lists[i].permits(c); err != nil {
			return err
		}
	}

	listed := len(p.lists) > 0 && p.lists[0].allow != nil
	switch {
	case !listed && !readOnly && p.mode != ModeBypass && !p.modeApproves(c):
		return c.explain(ErrMode)
	case (c.tool == toolWrite || c.tool == toolEdit) && p.mode != ModeBypass && !p.mayChange(c):
		return ErrProtected
	}

	return nil
}

// mayChange reports whether the file of a call is not protected, or the agent's own list has a
// pattern that names it.
func (p *Policy) mayChange(c *call) bool {
	t := c.target()
	protected := p.dir.protects(c.ctx, t.real)
	if protected == "" {
		return t.text == t.real || p.dir.protects(c.ctx, t.text) == ""
	}

	return len(p.lists) > 0 && slices.ContainsFunc(p.lists[0].allow, func(r rule) bool {
		g, ok := r.pattern.(glob)
		return ok && r.names(c.tool, c.original) && g.allows(c, 0) && g.names(protected)
	})
}

// denies reports whether a call is denied, and returns the rule, if it is one rule.
func (p *Policy) denies(c *call) (string, bool) {
	var denied bool
	var text string
	for i := range p.lists {
		if text, denied = p.lists[i].denies(c); denied {
			return text, true
		}
	}

	if c.tool != toolGrep && c.tool != toolGlob || !p.hiding.any() {
		return "", false
	}

	// A search may start in a directory that contains hidden files, but not in a hidden directory.
	t := c.target()
	return "", t.inText && t.text != "." && p.hiding.denies(t.text) || t.inReal && t.real != "." && p.hiding.denies(t.real)
}

// Source returns what denied a call, whose error of Check is err: the setting of the agent, and the
// rule or the mode if it is one.
func (p *Policy) Source(err error, tool Tool, input json.RawMessage) (setting, rule string) {
	switch {
	case errors.Is(err, ErrDenied):
		rule, _ = p.denies(&call{ctx: context.Background(), tool: tool.Name, original: tool.Original, input: input, dir: &p.dir})
		return "disallowedTools", rule
	case errors.Is(err, ErrNotListed), errors.Is(err, ErrPattern):
		return "allowedTools", ""
	case errors.Is(err, ErrProtected):
		return "protectedPaths", ""
	}

	return "permissionMode", string(p.mode)
}

// modeApproves reports whether acceptEdits or auto approves a call that no rule lists.
func (p *Policy) modeApproves(c *call) bool {
	switch {
	case p.mode != ModeAcceptEdits && p.mode != ModeAuto:
		return false
	case c.tool == toolWrite || c.tool == toolEdit:
		return c.target().inReal
	case c.tool == toolBash && p.mode == ModeAuto:
		commands, ok := p.onlyReads(c.script())
		if ok {
			c.execute(commands)
		}

		return ok
	}

	return false
}

// DeniesRead reports whether a rule with a path, such as Read(*.key) in the disallowed list, denies
// reading a file. It judges the path as written and the file that it leads to. An absolute path may
// be outside the working directory, as the files of skills may be.
func (p *Policy) DeniesRead(path string) bool {
	t := p.dir.target(path)
	return slices.ContainsFunc(p.hiding.deny, func(g glob) bool { return g.matchesTarget(&t) })
}

// Hides reports whether the rules hide a file from Read. Grep and Glob omit such a file. The path
// is relative to the working directory and has "/". It is judged as written: for a link, the caller
// also checks the path that it leads to.
//
// The result applies to one file: if Read(src/*.go) is allowed, "src" is hidden, but not every file
// below it. A path that ends in "/" is a directory, which is hidden if everything below it is.
func (p *Policy) Hides(path string) bool {
	return p.hiding.hides(path)
}
