package permission

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// Mode says what may run that is on no list.
type Mode string

// The modes of the runtime API.
const (
	ModeDefault     Mode = "default"           // read-only tools
	ModeAcceptEdits Mode = "acceptEdits"       // read-only tools, and Write and Edit in the working directory
	ModeBypass      Mode = "bypassPermissions" // everything that is not denied
	ModePlan        Mode = "plan"              // read-only tools, and nothing else even if it is listed
	ModeDontAsk     Mode = "dontAsk"           // read-only tools
	ModeAuto        Mode = "auto"              // as acceptEdits, and Bash commands that are known to change nothing
)

// Why a call is refused. The text is told to the model and to the caller.
var (
	ErrDenied    = errors.New("this call is denied by disallowedTools: do not try to do the same in another way, go on without it")
	ErrNotListed = errors.New("this tool is not in allowedTools: use one of the tools that you were given")
	ErrPattern   = errors.New("this call matches no pattern of its tool in allowedTools: keep to what is allowed; " +
		"in a Bash command every part has to match, and substitutions, assignments, redirections into files and wrappers never do")
	ErrPlan = errors.New("only read-only tools may run in plan mode: look, and tell what you would do")
	ErrMode = errors.New("the permission mode does not let this call run, and allowedTools does not list it: " +
		"use a read-only tool, or tell what you would have done")
)

// Config is what a policy is made of.
type Config struct {
	Mode Mode // defaults to ModeDefault

	// Allowed and Disallowed are rules. A nil Allowed puts every tool into the pool, an empty
	// one none.
	Allowed, Disallowed []string

	// Resolve answers where a path from a tool's input leads: with "/", relative to the working
	// directory, free of links, "." being the directory itself; for a path that does not exist,
	// where it would be. It fails if that is outside. If it is nil, paths are judged by their
	// text alone, and no file is looked at.
	Resolve func(path string) (string, error)

	// CWD is the working directory, absolute, which makes absolute paths relative by their text.
	CWD string

	// AgentHome is a directory in CWD, such as ".agents". Writes below it and below .git are not
	// pre-approved by acceptEdits and auto.
	AgentHome string
}

// Policy is a mode with its rules. Its zero value is the default mode without any. It is safe
// for concurrent use if Resolve is.
type Policy struct {
	mode   Mode
	dir    directory
	lists  []lists // the first are the agent's own, which pre-approve; all have to agree
	hiding hiding
}

// New makes a policy. The error names each rule that cannot be read.
func New(cfg Config) (*Policy, error) {
	mode := cmp.Or(cfg.Mode, ModeDefault)
	switch mode {
	case ModeDefault, ModeAcceptEdits, ModeBypass, ModePlan, ModeDontAsk, ModeAuto:
	default:
		return nil, fmt.Errorf("make policy: unknown permission mode %q", cfg.Mode)
	}
	own, err := readLists(cfg.Allowed, cfg.Disallowed)
	if err != nil {
		return nil, fmt.Errorf("make policy: %w", err)
	}
	p := &Policy{mode: mode, dir: newDirectory(cfg), lists: []lists{own}}
	p.hiding = hidingOf(p.lists)
	return p, nil
}

// Narrow makes the policy of a subagent: a call runs if it may run under this policy, and under
// the lists given, too. The lists never add rights; a nil allowed restricts nothing.
func (p *Policy) Narrow(allowed, disallowed []string) (*Policy, error) {
	more, err := readLists(allowed, disallowed)
	if err != nil {
		return nil, fmt.Errorf("narrow policy: %w", err)
	}
	narrow := *p
	if len(p.lists) == 0 { // of a zero Policy: what pre-approves stays empty
		narrow.lists = []lists{{}}
	}
	narrow.lists = append(slices.Clip(narrow.lists), more)
	narrow.hiding = hidingOf(narrow.lists)
	return &narrow, nil
}

// Offers reports whether a model should be told of the tool at all.
func (p *Policy) Offers(tool string, readOnly bool) bool {
	if p.mode == ModePlan && !readOnly {
		return false
	}
	for i := range p.lists {
		if !p.lists[i].offers(tool) {
			return false
		}
	}
	return true
}

// Check returns nil if the call may run, else one of the errors above.
func (p *Policy) Check(tool string, readOnly bool, input json.RawMessage) error {
	c := &call{tool: tool, input: input, dir: &p.dir}
	if p.denies(c) {
		return ErrDenied
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
	if listed || readOnly || p.mode == ModeBypass || p.approves(c) {
		return nil
	}
	return ErrMode
}

func (p *Policy) denies(c *call) bool {
	for i := range p.lists {
		if p.lists[i].denies(c) {
			return true
		}
	}
	if c.tool != toolGrep && c.tool != toolGlob || !p.hiding.any() {
		return false
	}
	// Of a directory with hidden files these see the others. One that is hidden itself has none.
	t := c.target()
	return t.inText && t.text != "." && p.hiding.denies(t.text) || t.inReal && t.real != "." && p.hiding.denies(t.real)
}

// approves says what the mode lets run that is on no list and not read-only.
func (p *Policy) approves(c *call) bool {
	switch {
	case p.mode != ModeAcceptEdits && p.mode != ModeAuto:
		return false
	case c.tool == toolWrite || c.tool == toolEdit:
		return p.dir.mayEdit(c.target())
	case c.tool == toolBash && p.mode == ModeAuto:
		return p.changesNothing(c.script())
	}
	return false
}

// Hides reports whether a file is one that Read may not read, which Grep and Glob leave out. The
// path is relative to the working directory and has "/". It is judged as it is written: a walk
// through a link asks for where the link leads as well.
//
// The answer is about that file alone: with Read(src/*.go) allowed, "src" is hidden, and files
// below it are not. A path that ends in "/" is a directory, and hidden if all below it is, so
// that a walk can leave it out.
func (p *Policy) Hides(path string) bool {
	return p.hiding.hides(path)
}
