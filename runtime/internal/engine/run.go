package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/internal/logquota"
	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/internal/collect"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/session"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// Input is the input of one run.
type Input struct {
	RunID    string
	Session  session.Session // required; the caller opens it for this run and closes it
	Message  string
	Content  []model.Block   // further parts of the message, which may have no text then
	History  []model.Message // stored in the session before Message
	Partials bool            // emit partial messages too

	// Init is emitted as the first event, unless it is nil. The run sets its Tools and MCPServers.
	Init *wire.Init

	MaxTurns int           // lowers the agent's limit; 0 keeps it
	Timeout  time.Duration // lowers RunTimeout; 0 keeps it

	Metadata map[string]string // of the run, for its span

	// Inputs are the kinds that the caller can answer: the run may end waiting for them.
	Inputs []string
	// OutputSchema is that of the request. It is not used if the agent has one.
	OutputSchema *OutputSchema
	// ClientTools are tools that the client of the run calls. CheckClientTools has accepted them.
	ClientTools []wire.ClientTool
	// Answers, if not nil, are those that CheckAnswers returned for Session. Message may be empty
	// then.
	Answers *Answers

	// Of a subagent: those of the run.
	log   *logquota.Quota
	spent *spending
}

// maxLog is the number of bytes that the tools of a run may write to the log.
const maxLog = 64 << 10

// Outcome is the result of a run, including a failed or cancelled one.
type Outcome struct {
	Text       string // the last text of the assistant, possibly incomplete
	StopReason string // of the last complete response
	Usage      wire.Usage
	Others     map[string]wire.Usage // of subagents with other models, a part of Usage
	NumTurns   int                   // calls of the model
	// FormerTurns are those of the runs that this one continues with answers.
	FormerTurns int
	Denials     []wire.PermissionDenial
	Pending     []wire.Pending // what the session waits for

	// Structured is the output of a run with a schema, which is the JSON in Text.
	Structured json.RawMessage
}

// Output receives the events of a run. One goroutine at a time calls it.
//
// An Output cannot stop a run. It cancels the run's context if it cannot deliver events.
type Output interface {
	// Emit takes one event and may buffer it. The event is valid until Emit returns.
	Emit(wire.Payload)
	// Flush sends the buffered events. The run calls it before it waits for the model, a tool or a
	// server, and at no other time.
	Flush()
}

// OutputFunc is an Output that does not buffer.
type OutputFunc func(wire.Payload)

// Emit calls f(p).
func (f OutputFunc) Emit(p wire.Payload) { f(p) }

// Flush does nothing.
func (f OutputFunc) Flush() {}

// runState is the state of one run.
type runState struct {
	engine     *Engine
	in         Input
	out        Output
	maxTurns   int
	tools      *toolset
	servers    []wire.MCPStatus // when the run started
	transcript *transcript
	question   int   // index of the message of this run in the transcript
	window     int64 // tokens; lower than ContextWindow after a rejection for size
	rejections int   // requests that were rejected for their size
	fill       fill
	outcome    Outcome
	calls      calls
	memory     memory
	results    resultMemory
	refused    refusals
	answers    map[string]*answeredCall // by the id of the call
	judged     map[string]*judgement    // by the id of the call, for the calls of one response
	shown      shown                    // of the same calls
	spent      *spending                // of the run that called this one too
	structured structuredOutput

	// firstAppend receives the result of storing the message of this run; nil after that.
	firstAppend chan error
	// partial is reused: an event is valid only until Emit returns.
	partial wire.PartialMessage
}

// Run executes one run and emits its events in the order in which they happen. To stop the run,
// cancel ctx. Run then returns the cause of ctx.
//
// Other errors are a [*model.Error], [ErrMaxTurns], [ErrRunTimeout], [ErrRepeated], an
// [*OutputError], an error of the session, or the value of a panic. The outcome is valid in all
// cases. When Run returns, all goroutines of the run have ended.
func (e *Engine) Run(ctx context.Context, in Input, out Output) (*Outcome, error) {
	r := e.newRun(in, out)
	timeout := e.cfg.RunTimeout
	if in.Timeout > 0 {
		timeout = min(timeout, in.Timeout)
	}

	ctx, cancel := context.WithTimeoutCause(ctx, timeout, ErrRunTimeout)
	ctx, span := r.startSpan(ctx)
	err := r.loop(ctx)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx) // err is a consequence of the cancel
	}

	cancel()
	if appendErr := r.awaitCalls(); err == nil {
		err = appendErr
	}

	if in.spent == nil {
		r.outcome.Usage, r.outcome.Others = r.spent.total, r.spent.others
	}

	r.endSpan(span, err)
	r.memory.release()
	r.results.release()
	return &r.outcome, err
}

func (e *Engine) newRun(in Input, out Output) *runState {
	r := &runState{engine: e, in: in, out: out, maxTurns: e.cfg.MaxTurns, tools: e.tools,
		window: int64(e.cfg.ContextWindow), memory: memory{reserve: e.cfg.Reserve},
		results: resultMemory{reserve: e.cfg.Reserve}, spent: in.spent}
	r.structured.OutputSchema = e.schemaOf(&in)
	if r.spent == nil { // not a subagent
		r.spent = &spending{model: e.cfg.Request.Model}
		r.memory.free, r.results.free = freeMemory, freeMemory
	}

	for _, s := range e.cfg.Servers {
		r.servers = append(r.servers, wire.MCPStatus{Name: s.Name(), Status: string(s.Status())})
	}

	if in.Answers != nil {
		r.outcome.FormerTurns = in.Answers.wait.Turns
		r.structured.repaired = in.Answers.wait.Repaired
	}

	if in.log == nil {
		r.in.log = logquota.New(maxLog)
	}

	if in.MaxTurns > 0 {
		r.maxTurns = min(r.maxTurns, in.MaxTurns)
	}

	return r
}

// loop calls the model and its tools alternately until the model requests no more tools.
func (r *runState) loop(ctx context.Context) (err error) {
	defer recoverPanic(&err)
	r.emitInit()
	var done bool
	if r.in.Answers == nil {
		err = r.begin(ctx)
	} else {
		done, err = r.continueWaiting(ctx)
	}

	if err != nil {
		return err
	}

	for !done {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}

		if err := r.limitContent(ctx); err != nil {
			return err
		}

		if err := r.compactIfFull(ctx); err != nil {
			return err
		}

		response, err := r.callModel(ctx)
		if err != nil {
			if err := r.recoverRejected(ctx, response, err); err != nil {
				return err
			}

			continue
		}

		if done, err = r.handleResponse(ctx, response); err != nil {
			return err
		}
	}

	return nil
}

// begin begins a run with a message.
func (r *runState) begin(ctx context.Context) error {
	if r.in.Session.Waiting() != nil {
		if err := r.rejectWaiting(ctx); err != nil {
			return err
		}
	}

	r.restore()
	r.appendQuestion(ctx)
	return r.prepareTools(ctx)
}

// continueWaiting begins a run with answers. It reports whether the run waits again.
func (r *runState) continueWaiting(ctx context.Context) (bool, error) {
	r.transcript = &transcript{}
	err := r.prepareTools(ctx)
	waiting := false
	if err == nil {
		waiting, err = r.resume(ctx)
	}

	if err != nil {
		return false, err
	}

	r.restore()
	if r.in.Message != "" || len(r.in.Content) > 0 {
		r.appendQuestion(ctx)
		return waiting, nil
	}

	r.question, r.in.Message = r.transcript.lastQuestion()
	return waiting, nil
}

// restore reads the transcript of the session.
func (r *runState) restore() {
	r.transcript = restore(portable(r.in.Session.Messages(), r.engine.cfg.Origin))
}

// prepareTools connects the servers, and adds the tools of the client and that of the output.
func (r *runState) prepareTools(ctx context.Context) error {
	if err := r.connectServers(ctx); err != nil {
		return err
	}

	if err := r.addClientTools(); err != nil {
		return err
	}

	r.chooseForm()
	r.warnLeftOut()
	return nil
}

// incomplete has the reasons of responses whose last tool call may be truncated.
var incomplete = []string{model.StopMaxTokens, model.StopContext, model.StopRefusal}

// handleResponse stores and emits a complete response and runs the tool calls in it. It reports
// whether the run is done.
func (r *runState) handleResponse(ctx context.Context, response *collect.Response) (bool, error) {
	r.coerceInputs(ctx, response.Message.Content)
	final, problem := r.takeOutput(ctx, response)
	if response.Message.HasOutput() {
		response.Message.Origin = r.engine.cfg.Origin
		r.fill.count(response.Usage, len(r.transcript.messages)+1)
		if err := r.appendMessage(ctx, response.Message); err != nil {
			return false, err
		}
	}

	r.out.Emit(r.assistantEvent(response))
	calls := response.Message.ToolUses()
	switch {
	case len(calls) == 0 && strings.TrimSpace(r.outcome.Text) == "":
		return false, emptyAnswer(response.StopReason)
	case problem != "":
		return false, r.repairOutput(ctx, calls, problem)
	case final, len(calls) == 0, slices.Contains(incomplete, response.StopReason):
		return true, nil
	case r.outcome.NumTurns >= r.maxTurns:
		return false, ErrMaxTurns
	}

	return r.handleCalls(ctx, calls)
}

// emptyAnswer returns the error of a run in which the model wrote no text and called no tool at
// last.
func emptyAnswer(stopReason string) error {
	e := &model.Error{Code: runvalue.ErrorTypeServer, Message: "the model ended its response without a text"}
	switch stopReason {
	case model.StopMaxTokens:
		e.Message = "the response reached the limit of output tokens before its text began: maxOutputTokens must be larger"
	case model.StopContext:
		e.Code, e.Message = runvalue.ErrorTypePromptTooLong, "the conversation reached the context window of the model before a text began"
	case model.StopRefusal:
		e.Message = "the model refused to respond"
	}

	return e
}

// appendMessage appends a message to the transcript and to the session.
func (r *runState) appendMessage(ctx context.Context, m model.Message) error {
	if err := r.in.Session.Append(ctx, m); err != nil {
		return fmt.Errorf("append to session: %w", err)
	}

	r.transcript.add(m)
	return nil
}

// appendQuestion appends the history and the message of this run to the transcript and, in the
// background, to the session: the call of the model does not wait for the disk. The run calls
// awaitFirstAppend before it emits any part of the response.
func (r *runState) appendQuestion(ctx context.Context) {
	messages := append(slices.Clip(r.in.History), r.in.message())
	for _, m := range messages {
		r.transcript.add(m)
	}

	r.question = len(r.transcript.messages) - 1
	r.firstAppend = make(chan error, 1)
	go func(done chan<- error) {
		var err error
		defer func() { done <- err }()
		defer recoverPanic(&err)
		for _, m := range messages {
			if err = r.in.Session.Append(ctx, m); err != nil {
				return
			}
		}
	}(r.firstAppend)
}

// awaitFirstAppend waits until the message of this run is stored.
func (r *runState) awaitFirstAppend() error {
	if r.firstAppend == nil {
		return nil
	}

	err := <-r.firstAppend
	r.firstAppend = nil
	if err != nil {
		return fmt.Errorf("append to session: %w", err)
	}

	return nil
}

// recoverPanic converts a panic into an error. It is called by defer.
func recoverPanic(err *error) {
	if value := recover(); value != nil {
		*err = &panicError{value, debug.Stack()}
	}
}

// panicError is the error of a run in which the model, the session or the output panicked.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v\n%s", e.value, e.stack) }
