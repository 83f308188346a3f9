// Package engine runs the loop of an agent: call the model, pass its parts on as they come, run
// the tools it asks for, give it their results, until it is done or a limit is reached.
//
// An [Engine] is what an agent is made of, and serves all its runs. A [Run] is one of them:
//
//	run := agent.Start(engine.Input{Session: s, Message: "hello", Partials: true})
//	for event, err := range run.Events(ctx) {
//		// events in the order in which they happen; an error is the last thing that comes
//	}
//	outcome := run.Outcome()
package engine

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/permission"
	"github.com/seed93082962/agenthost/runtime/session"
	"github.com/seed93082962/agenthost/runtime/tool"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// How a run fails beside an error of the model, which is a [*model.Error].
var (
	// ErrMaxTurns: the model asked for tools on the last turn it was permitted.
	ErrMaxTurns = errors.New("the maximum number of turns is reached")
	// ErrRunTimeout: the run took longer than its limit.
	ErrRunTimeout = errors.New("the run took too long")
)

// Config says what an agent is made of.
type Config struct {
	// Model answers. Required.
	Model model.Model
	// Request is what every call of the model has in common: the model's name, the system
	// prompt and the numbers. Messages, Tools and Alive are filled in.
	Request model.Request
	// Tools that exist. Which of them are offered, and which calls run, is up to Policy.
	Tools []tool.Tool
	// Policy defaults to one that lets read-only tools run.
	Policy *permission.Policy

	// MaxTurns bounds the calls of the model in one run. Defaults to 10.
	MaxTurns int
	// RunTimeout bounds a run. Defaults to 30 minutes.
	RunTimeout time.Duration
	// IdleTimeout bounds how long the model may be silent. Defaults to 2 minutes.
	IdleTimeout time.Duration
	// ToolTimeout bounds one tool call. Defaults to 2 minutes.
	ToolTimeout time.Duration
	// MaxToolOutput bounds what the model gets to see of the output of one call, in bytes.
	// Defaults to 100,000.
	MaxToolOutput int

	// Logger defaults to one that discards.
	Logger *slog.Logger
}

// Engine runs one agent. It is safe for concurrent use.
type Engine struct {
	cfg     Config
	tools   map[string]entry
	offered []model.Tool
	names   []string // of the offered tools
}

type entry struct {
	tool.Tool
	spec tool.Spec
}

// New checks the configuration and makes an engine.
func New(cfg Config) (*Engine, error) {
	if cfg.Model == nil {
		return nil, errors.New("make engine: no model")
	}
	if cfg.Policy == nil {
		cfg.Policy = &permission.Policy{}
	}
	cfg.MaxTurns = cmp.Or(cfg.MaxTurns, 10)
	cfg.RunTimeout = cmp.Or(cfg.RunTimeout, 30*time.Minute)
	cfg.IdleTimeout = cmp.Or(cfg.IdleTimeout, 2*time.Minute)
	cfg.ToolTimeout = cmp.Or(cfg.ToolTimeout, 2*time.Minute)
	cfg.MaxToolOutput = cmp.Or(cfg.MaxToolOutput, 100_000)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	e := &Engine{cfg: cfg, tools: map[string]entry{}}
	for _, t := range cfg.Tools {
		spec := t.Spec()
		if !validName(spec.Name) {
			return nil, fmt.Errorf("make engine: tool name %q is not of the form ^[A-Za-z0-9_-]{1,64}$", spec.Name)
		}
		if _, ok := e.tools[spec.Name]; ok {
			return nil, fmt.Errorf("make engine: two tools are named %q", spec.Name)
		}
		if len(spec.InputSchema) == 0 {
			spec.InputSchema = []byte(`{"type":"object"}`)
		}
		e.tools[spec.Name] = entry{t, spec}
		if cfg.Policy.Offers(spec.Name, spec.ReadOnly) {
			e.offered = append(e.offered, model.Tool{Name: spec.Name, Description: spec.Description, InputSchema: spec.InputSchema})
		}
	}
	// A stable order keeps the prefix of the prompt the same from call to call, so that
	// upstream can cache it.
	slices.SortFunc(e.offered, func(a, b model.Tool) int { return strings.Compare(a.Name, b.Name) })
	e.names = make([]string, len(e.offered))
	for i := range e.offered {
		e.names[i] = e.offered[i].Name
	}
	return e, nil
}

func validName(name string) bool { return ids.Plain(name, 64) && !strings.Contains(name, ".") }

// Tools returns the names of the tools that the model is offered, sorted.
func (e *Engine) Tools() []string { return append([]string{}, e.names...) }

// Input is what one run begins with.
type Input struct {
	RunID    string
	Session  session.Session // required, held for this run; the caller closes it
	Message  string
	Partials bool // yield partial messages too

	MaxTurns int           // may only tighten the agent's limit; 0 leaves it
	Timeout  time.Duration // may only tighten RunTimeout; 0 leaves it
}

// Outcome is what came of a run, also of one that failed or was cancelled.
type Outcome struct {
	Text       string // the last text of the assistant, also a partial one
	StopReason string // of the last whole answer
	Usage      wire.Usage
	NumTurns   int // calls of the model
	Denials    []wire.PermissionDenial
}

// Start makes a run. Nothing happens before its events are read.
func (e *Engine) Start(in Input) *Run {
	r := &Run{engine: e, in: in, maxTurns: e.cfg.MaxTurns, timeout: e.cfg.RunTimeout}
	if in.MaxTurns > 0 {
		r.maxTurns = min(r.maxTurns, in.MaxTurns)
	}
	if in.Timeout > 0 {
		r.timeout = min(r.timeout, in.Timeout)
	}
	return r
}
