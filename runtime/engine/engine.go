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
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

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
	// Servers have more tools. They are connected before the first call of the model, and the
	// tools of a run do not change after it.
	Servers []tool.Server
	// Subagents make the tool Task, which hands a task to one of them.
	Subagents []Subagent
	// Policy defaults to one that lets read-only tools run.
	Policy *permission.Policy
	// Approve is asked before a call is refused that Policy does not allow, if it is not nil:
	// true lets the call run. What is denied, and what the mode plan leaves out, is refused
	// without asking. It returns when ctx ends.
	Approve func(ctx context.Context, call Approval) bool

	// MaxTurns bounds the calls of the model in one run. Defaults to 10.
	MaxTurns int
	// ContextWindow is how many tokens the model takes and gives. A conversation that comes near
	// it is summarised. Defaults to 200,000.
	ContextWindow int
	// RunTimeout bounds a run. Defaults to 30 minutes.
	RunTimeout time.Duration
	// IdleTimeout bounds how long the model may be silent. Defaults to 2 minutes.
	IdleTimeout time.Duration
	// ToolTimeout bounds one tool call, if the tool is no [tool.Timed] and not Task. Defaults to
	// 2 minutes.
	ToolTimeout time.Duration
	// ConnectTimeout bounds how long the first call of the model waits for Servers. Defaults to
	// 10 seconds.
	ConnectTimeout time.Duration
	// MaxToolOutput bounds what the model gets to see of the output of one call, in bytes.
	// Defaults to 100,000.
	MaxToolOutput int

	// Logger defaults to one that discards.
	Logger *slog.Logger
}

// Approval is a call that would be refused.
type Approval struct {
	tool.Call
	Tool   string // its name
	Reason error  // why it would be refused
}

// Engine runs one agent. It is safe for concurrent use.
type Engine struct {
	cfg    Config
	own    *toolset                    // the tools that are no server's
	merged atomic.Pointer[mergedTools] // what the last run used
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
	cfg.ContextWindow = cmp.Or(cfg.ContextWindow, 200_000)
	cfg.RunTimeout = cmp.Or(cfg.RunTimeout, 30*time.Minute)
	cfg.IdleTimeout = cmp.Or(cfg.IdleTimeout, 2*time.Minute)
	cfg.ToolTimeout = cmp.Or(cfg.ToolTimeout, 2*time.Minute)
	cfg.ConnectTimeout = cmp.Or(cfg.ConnectTimeout, 10*time.Second)
	cfg.MaxToolOutput = cmp.Or(cfg.MaxToolOutput, 100_000)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	tools := cfg.Tools
	if len(cfg.Subagents) > 0 {
		task, err := newTask(cfg.Subagents)
		if err != nil {
			return nil, fmt.Errorf("make engine: %w", err)
		}
		tools = append(slices.Clip(tools), task)
	}
	own, err := newToolset(tools, cfg.Policy)
	if err != nil {
		return nil, fmt.Errorf("make engine: %w", err)
	}
	return &Engine{cfg: cfg, own: own}, nil
}

// Tools returns the names of the tools that the model is offered, sorted, without those of servers.
func (e *Engine) Tools() []string { return append([]string{}, e.own.names...) }

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
	r := &Run{engine: e, in: in, maxTurns: e.cfg.MaxTurns, timeout: e.cfg.RunTimeout, tools: e.own}
	for _, s := range e.cfg.Servers {
		r.servers = append(r.servers, wire.MCPStatus{Name: s.Name(), Status: string(s.Status())})
	}
	if in.MaxTurns > 0 {
		r.maxTurns = min(r.maxTurns, in.MaxTurns)
	}
	if in.Timeout > 0 {
		r.timeout = min(r.timeout, in.Timeout)
	}
	return r
}
