package runtime

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/seed93082962/agenthost/internal/httpapi"
	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/internal/engine"
	"github.com/seed93082962/agenthost/runtime/internal/registry"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/session"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// execution is one run of an agent: its entry in the registry, its session and its input.
type execution struct {
	rt        *Runtime
	agent     *hosted
	run       *registry.Run // its context stops the run, and only that
	session   session.Session
	info      RunInfo
	input     engine.Input
	requestID string // of the HTTP request, if any
	started   time.Time
	memory    *httpapi.Memory // of the session and of uploads
}

// usage returns the value of runvalue.UsageHeader.
func (x *execution) usage(res *result) string {
	return wire.RunUsage{Model: x.input.Init.Model, Usage: res.Usage, Others: res.Others}.Header()
}

// maxTimeoutMs prevents the overflow of a duration. No limit is longer than a year.
const maxTimeoutMs = 366 * 24 * 3600 * 1000

func (rt *Runtime) newExecution(h *hosted, entry *registry.Run, s session.Session, req *wire.RunRequest, c *contents) *execution {
	runID := entry.ID().String()
	s.Begin(runID)
	init := h.init
	init.RunID, init.SessionID, init.Resumed = runID, s.ID(), s.Resumed()
	x := &execution{
		rt: rt, agent: h, run: entry, session: s, started: time.Now(), memory: c.memory,
		info: RunInfo{AgentID: h.id, RunID: runID, SessionID: s.ID(), Metadata: req.Metadata},
		input: engine.Input{
			RunID: runID, Session: s, Message: req.Message, Content: c.parts, Init: &init,
			Inputs: req.Inputs, ClientTools: req.ClientTools, OutputSchema: c.output,
		},
	}
	if strings.TrimSpace(req.Message) == "" { // next to content or answers
		x.input.Message = ""
	}

	if rt.cfg.TracerProvider != nil && len(req.Metadata) > 0 {
		x.input.Metadata = truncateMetadata(req.Metadata)
	}

	if !s.Resumed() { // a resumed session has a history already
		x.input.History = c.history
	}

	if req.MaxTurns != nil {
		x.input.MaxTurns = *req.MaxTurns
	}

	if req.TimeoutMs != nil {
		x.input.Timeout = time.Duration(min(*req.TimeoutMs, maxTimeoutMs)) * time.Millisecond
	}

	return x
}

// execute runs the agent and returns the result. It emits all events to out, including those of the
// result.
func (x *execution) execute(out engine.Output) *result {
	if x.rt.cfg.Observe != nil {
		out = observed{out, x}
	}

	out = recorded{out, x}
	ended := x.rt.metrics.run(x.info.AgentID, x.session.Resumed())
	outcome, err := x.agent.engine.Run(x.run.Context(), x.input, out)
	res := x.end(outcome, err)
	ended(res)
	out.Emit(res.event())
	out.Emit(&wire.Done{})
	return res
}

// close releases the resources of the run, even if it was not executed.
func (x *execution) close() {
	_ = x.closeSession() // which logs it
	x.memory.Release()
	_, _ = x.run.Finish(errors.New("the run was not executed"), nil)
}

// closeSession closes the session on the first call.
func (x *execution) closeSession() (err error) {
	if x.session == nil {
		return nil
	}

	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("panic: %v\n%s", value, debug.Stack())
		}

		if err != nil {
			err = fmt.Errorf("close session: %w", err)
			x.rt.cfg.Logger.Error("close session", "err", err, "session_id", x.info.SessionID, "run_id", x.info.RunID)
		}
	}()
	s := x.session
	x.session = nil
	return s.Close()
}

// result is the result of a run. It becomes the last events of a stream or a JSON response.
type result struct {
	*engine.Outcome
	info     RunInfo
	duration time.Duration
	state    wire.State
	reason   wire.Reason // of a cancelled run

	// Of a failed run.
	subtype    string // of the result event
	errorType  string
	message    string        // for the client
	retryAfter time.Duration // requested by upstream
	internal   bool          // the runtime failed, not the run
}

// end ends the run, records the end in the session and closes it before the client can see the end
// and resume the session.
func (x *execution) end(outcome *engine.Outcome, err error) *result {
	state, reason := x.run.Finish(err, func(state wire.State, reason wire.Reason) error {
		x.record(x.result(outcome, err, state, reason).event())
		closeErr := x.closeSession()
		if err == nil {
			err = closeErr
		}

		return closeErr
	})
	res := x.result(outcome, err, state, reason)
	x.log(res, err)
	return res
}

// result returns the result of a run that ended in this way.
func (x *execution) result(outcome *engine.Outcome, err error, state wire.State, reason wire.Reason) *result {
	res := &result{Outcome: outcome, info: x.info, duration: time.Since(x.started), state: state, reason: reason}
	upstream, ofModel := errors.AsType[*model.Error](err)
	badOutput, invalidOutput := errors.AsType[*engine.OutputError](err)
	switch {
	case res.state != wire.StateFailed:
	case ofModel:
		res.subtype, res.errorType = runvalue.ResultError, string(upstream.Code)
		res.message, res.retryAfter = upstream.Message, upstream.RetryAfter
	case errors.Is(err, engine.ErrMaxTurns):
		res.subtype, res.errorType, res.message = runvalue.ResultMaxTurns, runvalue.ErrorTypeMaxTurns, engine.ErrMaxTurns.Error()
	case invalidOutput:
		res.subtype, res.errorType, res.message = runvalue.ResultExecution, runvalue.ErrorTypeOutput, badOutput.Error()
	case errors.Is(err, engine.ErrRunTimeout):
		res.subtype, res.errorType, res.message = runvalue.ResultExecution, runvalue.ErrorTypeTimeout, engine.ErrRunTimeout.Error()
	case errors.Is(err, engine.ErrRepeated):
		res.subtype, res.errorType, res.message = runvalue.ResultExecution, runvalue.ErrorTypeExecution, engine.ErrRepeated.Error()
	case errors.Is(err, syscall.ENOSPC):
		res.subtype, res.errorType, res.message = runvalue.ResultExecution, runvalue.ErrorTypeExecution, "the disk of the runtime is full"
	default:
		res.subtype, res.errorType = runvalue.ResultExecution, runvalue.ErrorTypeExecution
		res.message, res.internal = "Internal error", true
	}

	return res
}

// log writes one line about a completed run.
func (x *execution) log(res *result, err error) {
	attrs := []slog.Attr{
		slog.String("run_id", x.info.RunID), slog.String("agent", x.info.AgentID),
		slog.String("session_id", x.info.SessionID), slog.String("state", string(res.state)),
		slog.Int("turns", res.NumTurns), slog.Int64("input_tokens", res.Usage.InputTokens),
		slog.Int64("output_tokens", res.Usage.OutputTokens), slog.Int64("duration_ms", res.duration.Milliseconds()),
		slog.String("request_id", x.requestID),
	}
	level := slog.LevelInfo
	switch res.state {
	case wire.StateCancelled:
		attrs = append(attrs, slog.String("reason", string(res.reason)))
	case wire.StateFailed:
		level = slog.LevelWarn
		if res.internal {
			level = slog.LevelError
		}

		attrs = append(attrs, slog.String("error_type", res.errorType), slog.Any("err", err))
		if cause := errors.Unwrap(err); cause != nil {
			attrs = append(attrs, slog.Any("cause", cause))
		}
	}

	if len(x.info.Metadata) > 0 {
		attrs = append(attrs, slog.Any("metadata", truncateMetadata(x.info.Metadata)))
	}

	x.rt.cfg.Logger.LogAttrs(x.run.Context(), level, "run", attrs...)
}

// event returns the event that reports the result.
func (res *result) event() wire.Payload {
	switch {
	case res.state == wire.StateCancelled:
		return &wire.Cancelled{Type: "cancelled", RunID: res.info.RunID, Reason: res.reason, Usage: res.Usage, Others: res.Others}
	case res.internal:
		return &wire.Fault{Type: "error", Error: res.message, ErrorType: res.errorType, RunID: res.info.RunID, Usage: res.Usage, Others: res.Others}
	}

	event := &wire.Result{
		Type: "result", Subtype: runvalue.ResultSuccess, RunID: res.info.RunID, SessionID: res.info.SessionID,
		NumTurns: res.NumTurns, DurationMs: res.duration.Milliseconds(), Usage: res.Usage, Others: res.Others,
	}
	if res.FormerTurns > 0 {
		event.TotalTurns = res.FormerTurns + res.NumTurns
	}

	if res.state == wire.StateFailed {
		event.IsError, event.Subtype = true, res.subtype
		event.ErrorType, event.Errors = res.errorType, []string{res.message}
		event.RetryAfterMs = res.retryAfter.Milliseconds()
		return event
	}

	if event.Pending = res.Pending; len(res.Pending) > 0 {
		event.Subtype = runvalue.ResultInput
	}

	event.Result, event.StopReason = &res.Text, res.StopReason
	event.Structured = res.Structured
	if event.PermissionDenials = res.Denials; res.Denials == nil {
		event.PermissionDenials = []wire.PermissionDenial{}
	}

	return event
}

// Run executes an agent in this process and yields the events that an HTTP client would receive.
// The last one is [wire.Done]. A failed run is not an error: its [wire.Result] reports the failure.
// A rejected request yields only an [*Error], as does a failure to open the session.
//
// Breaking out of the loop, or the end of ctx, cancels the run. An event is valid only until the
// next iteration.
func (rt *Runtime) Run(ctx context.Context, agentID string, req wire.RunRequest) iter.Seq2[wire.Event, error] {
	return func(yield func(wire.Event, error) bool) {
		h, err := rt.findAgent(agentID, &req)
		if err != nil {
			yield(wire.Event{}, err)
			return
		}

		x, err := rt.prepare(ctx, h, &req)
		if err != nil {
			yield(wire.Event{}, err)
			return
		}
		defer x.close()
		x.input.Partials = req.Stream != wire.StreamBlock && req.Stream != wire.StreamOff
		out := &loopOutput{yield: yield, leave: func() { x.run.Cancel(wire.ReasonDisconnect) }}
		x.execute(out)
		out.Flush()
	}
}
