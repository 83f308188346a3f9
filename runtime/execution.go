package runtime

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"time"

	"github.com/seed93082962/agenthost/internal/excerpt"
	"github.com/seed93082962/agenthost/runtime/engine"
	"github.com/seed93082962/agenthost/runtime/run"
	"github.com/seed93082962/agenthost/runtime/session"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// execution is one run of an agent: its entry in the registry, its session and its input.
type execution struct {
	rt        *Runtime
	agent     *hosted
	run       *run.Run // its context stops the run, and only that
	session   session.Session
	info      RunInfo
	input     engine.Input
	requestID string // of the HTTP request, if any
	started   time.Time
	unbind    func() bool // separates the run from the context of its caller
}

// maxTimeoutMs prevents the overflow of a duration. No limit is longer than a year.
const maxTimeoutMs = 366 * 24 * 3600 * 1000

func (rt *Runtime) newExecution(h *hosted, entry *run.Run, s session.Session, req *wire.RunRequest) *execution {
	runID := entry.ID().String()
	init := h.init
	init.RunID, init.SessionID, init.Resumed = runID, s.ID(), s.Resumed()
	x := &execution{
		rt: rt, agent: h, run: entry, session: s, started: time.Now(),
		info:  RunInfo{AgentID: h.id, RunID: runID, SessionID: s.ID(), Metadata: req.Metadata},
		input: engine.Input{RunID: runID, Session: s, Message: req.Message, Init: &init},
	}
	if !s.Resumed() { // a resumed session has a history already
		x.input.History = historyMessages(req.History)
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
	outcome, err := x.agent.engine.Run(x.run.Context(), x.input, out)
	res := x.finish(outcome, err)
	out.Emit(res.event())
	out.Emit(&wire.Done{})
	return res
}

// finish ends the run: it closes the session, sets the final state in the registry and writes the
// log.
//
//go:noinline
func (x *execution) finish(outcome *engine.Outcome, err error) *result {
	if x.run.Context().Err() != nil {
		x.rt.runs.AwaitCancels()
	}
	// The session is closed before a client can see the end of the run and resume the session.
	if closeErr := x.closeSession(); err == nil {
		err = closeErr
	}
	res := newResult(x.info, outcome, err)
	res.state = x.run.Finish(res.state)
	res.reason = x.run.Reason()
	res.duration = time.Since(x.started)
	x.log(res, err)
	return res
}

// close releases the resources of the run, even if it was not executed.
func (x *execution) close() {
	x.unbind()
	_ = x.closeSession() // which logs it
	x.run.Finish(wire.StateFailed)
}

// closeSession closes the session on the first call.
func (x *execution) closeSession() (err error) {
	if x.session == nil {
		return nil
	}
	defer func() {
		if err != nil {
			x.rt.cfg.Logger.Error("close session", "err", err, "session_id", x.info.SessionID, "run_id", x.info.RunID)
		}
	}()
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("close session: panic: %v\n%s", value, debug.Stack())
		}
	}()
	s := x.session
	x.session = nil
	if err = s.Close(); err != nil {
		err = fmt.Errorf("close session: %w", err)
	}
	return err
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
	switch {
	case res.state == wire.StateCancelled:
		attrs = append(attrs, slog.String("reason", string(res.reason)))
	case err != nil:
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

// truncateMetadata limits what a caller can write to the log.
func truncateMetadata(metadata map[string]string) map[string]string {
	const keys, length = 16, 256
	short := make(map[string]string, min(len(metadata), keys))
	for _, key := range slices.Sorted(maps.Keys(metadata))[:min(len(metadata), keys)] {
		value := metadata[key]
		short[excerpt.Shorten(key, length)] = excerpt.Shorten(value, length)
	}
	return short
}
