// Package engine runs agents. A run calls the model, emits the parts of its response as they
// arrive, runs the tool calls in the response, and calls the model again with their results. It
// ends when the model requests no more tools, or at a limit.
//
// An [Engine] has the configuration of one agent. [Engine.Run] executes one run of it:
//
//	agent, err := engine.New(engine.Config{Model: m, Tools: tools})
//	...
//	outcome, err := agent.Run(ctx, engine.Input{Session: s, Message: "hello"}, output)
//
// Events go to an [Output]. Cancelling ctx is the only way to stop a run.
package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/internal/permission"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/tool"
)

// Errors of a run. A failure of the model is a [*model.Error].
var (
	// ErrMaxTurns is returned if the model requests tools on the last permitted turn.
	ErrMaxTurns = errors.New("the maximum number of turns is reached")
	// ErrRunTimeout is returned if the run takes longer than its limit.
	ErrRunTimeout = errors.New("the run took too long")
	// ErrRepeated is returned if the model repeats a call that is refused.
	ErrRepeated = fmt.Errorf("the model sent the same refused tool call in %d turns in a row", endAfter)
)

// Config describes an agent.
type Config struct {
	// AgentID is the id of the agent in approval requests, metrics and traces.
	AgentID string
	// Name is the name of the agent, or of the subagent, in traces. Defaults to AgentID.
	Name string
	// Model is called in each turn. Required.
	Model model.Model
	// Request has the fields that are equal in all calls of the model, such as the name of the
	// model, the system prompt and the output limit. The run sets Messages, Tools and Alive.
	Request model.Request
	// Origin identifies the upstream and the model. It is stored with each response. When a session
	// continues, responses of another origin are sent without their thinking and without the opaque
	// fields of tool calls, which only their own upstream accepts. Responses without an origin are
	// sent unchanged.
	Origin string
	// Builtin are the tools that the runtime provides. They are like Tools, and counted separately.
	Builtin []tool.Tool
	// Tools are all other tools of the agent. Policy determines which tools are offered to the
	// model and which calls are permitted. If Model is a [model.ToolLimiter], the first tools are
	// offered and the others are left out with a warning. The order is: Task, Builtin, Tools, the
	// tools for resources, and the tools of Servers by name.
	Tools []tool.Tool
	// Servers provide additional tools. They are connected before the first call of the model.
	// After that, the tools of the run do not change.
	Servers []tool.Server
	// Subagents are the agents that the model can call with the tool Task. Without subagents, Task
	// is not offered.
	Subagents []Subagent
	// Policy defaults to one that allows only read-only tools.
	Policy *permission.Policy
	// Approve, if not nil, is called for a tool call that Policy does not allow. It reports whether
	// the call may run. It is not called for calls that a rule denies or that the mode plan does
	// not offer. It must return when ctx ends.
	Approve func(ctx context.Context, req ApprovalRequest) bool

	// OutputSchema is the schema of the output of each run, or nil. Subagents have none.
	OutputSchema json.RawMessage

	// MaxTurns limits the calls of the model in one run. Defaults to 10.
	MaxTurns int
	// ContextWindow is the number of tokens of a request and its response together. A conversation
	// that approaches it is summarised. Defaults to 200,000.
	ContextWindow int
	// RunTimeout limits the duration of a run. Defaults to 30 minutes.
	RunTimeout time.Duration
	// IdleTimeout limits the time without data from the model. Defaults to 2 minutes.
	IdleTimeout time.Duration
	// ToolTimeout limits the duration of one tool call, except calls of Task and of a [tool.Timed].
	// Defaults to 2 minutes.
	ToolTimeout time.Duration
	// ConnectTimeout limits the time that the first call of the model waits for Servers. Defaults
	// to 10 seconds.
	ConnectTimeout time.Duration
	// MaxToolOutput is the maximum number of bytes of the output of one call that the model
	// receives. Defaults to 100,000.
	MaxToolOutput int
	// MaxContent is the maximum number of bytes of the images and files of a conversation. Defaults
	// to [runvalue.MaxContentBytes].
	MaxContent int

	// MaxResponse is the maximum number of bytes of one response of the model: its texts, thinking
	// and tool inputs. A longer response fails the run. Defaults to 4 MiB, at most
	// [response.MaxBytesTotal].
	MaxResponse int
	// Reserve, if not nil, is called before a run uses more memory for its conversation and the
	// response of the model, with the number of additional bytes, and with a negative number after
	// it has released them. An error ends the run. Concurrent runs call it concurrently.
	Reserve func(bytes int) error

	// MeterProvider receives the metrics of model calls and tool calls. Defaults to none.
	MeterProvider metric.MeterProvider
	// TracerProvider receives a span for each run, model call and tool call. Defaults to none.
	TracerProvider trace.TracerProvider
	// TraceContent adds the messages, the inputs and the outputs of tools to the spans.
	TraceContent bool
	// Provider is the name of the model's provider in traces, such as anthropic.
	Provider string

	// Logger defaults to a logger that discards all records.
	Logger *slog.Logger
}

// ApprovalRequest is a tool call that the policy does not allow.
type ApprovalRequest struct {
	AgentID   string
	RunID     string
	SessionID string
	ToolUseID string
	ToolName  string
	Input     json.RawMessage
	Reason    error // why the policy does not allow it
}

// Engine runs one agent. It is safe for concurrent use.
type Engine struct {
	cfg    Config
	tools  *toolset                    // without those of servers
	merged atomic.Pointer[mergedTools] // with those of servers, as the last run used them

	outputSchema *OutputSchema // nil: the output is any text

	merging chan struct{} // a semaphore for withServers
	metrics *metrics
	tracer  tracer
}

// New checks the configuration and returns an engine.
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
	cfg.MaxContent = cmp.Or(cfg.MaxContent, runvalue.MaxContentBytes)
	cfg.MaxResponse = cmp.Or(cfg.MaxResponse, 4<<20)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}

	cfg.Name = cmp.Or(cfg.Name, cfg.AgentID)
	e := &Engine{cfg: cfg, merging: make(chan struct{}, 1), tracer: newTracer(&cfg)}
	var err error
	if e.metrics, err = newMetrics(&cfg); err == nil {
		e.tools, err = newToolset(&cfg)
	}

	if err == nil && len(cfg.OutputSchema) > 0 {
		e.outputSchema, err = CompileOutputSchema(cfg.OutputSchema)
	}

	if err != nil {
		return nil, fmt.Errorf("make engine: %w", err)
	}

	return e, nil
}

// HasOutputSchema reports whether the agent has a schema of its output.
func (e *Engine) HasOutputSchema() bool { return e.outputSchema != nil }

// Tools returns the sorted names of the tools that are offered to the model, except those of
// servers.
func (e *Engine) Tools() []string { return append([]string{}, e.tools.names...) }
