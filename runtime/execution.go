package runtime

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/runtime/engine"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/run"
	"github.com/seed93082962/agenthost/runtime/session"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// execution is one run on its way through this runtime.
type execution struct {
	rt        *Runtime
	agent     *hosted
	id        string
	requestID string // of the HTTP request, if there is one
	metadata  map[string]string
	started   time.Time
	run       *run.Run
	session   session.Session // nil once it is free again
	sessionID string
	resumed   bool
	engine    *engine.Run
	observe   func(wire.Event) // nil: nobody does
	unbind    func() bool      // lets go of the caller's context
}

// ending is how a run ended, before it is told in one form or the other.
type ending struct {
	engine.Outcome
	state     wire.State
	reason    wire.Reason // of a cancelled run
	subtype   string      // of the result event
	errorType string
	message   string // what went wrong, for the client
	retry     time.Duration
	fault     bool // it is the runtime that failed, not the run
	took      time.Duration
}

// tell executes the run, yields every event that its caller is sent, and returns how it ended. A
// caller who has had enough cancels the run.
func (x *execution) tell(yield func(wire.Event) bool) *ending {
	on := true
	send := func(ev wire.Event) {
		if x.observe != nil && ev.Payload != nil {
			x.observe(ev)
		}
		if on && !yield(ev) {
			on = false
			x.run.Cancel(wire.ReasonDisconnect)
		}
	}
	send(x.first())
	end := x.execute(send)
	send(wire.Event{Payload: x.last(end), More: true})
	send(wire.Event{Payload: &wire.Done{}})
	return end
}

// execute runs the agent, hands each event to send, and returns how it ended. What panics ends
// the run alone.
func (x *execution) execute(send func(wire.Event)) *ending {
	err := x.work(send)
	// The session is free before anybody hears that the run is over.
	if closeErr := x.closeSession(); err == nil {
		err = closeErr
	}
	return x.conclude(err)
}

func (x *execution) work(send func(wire.Event)) (err error) {
	defer recovered(&err)
	for ev, err := range x.engine.Events(x.run.Context()) {
		if err != nil {
			return err
		}
		send(ev)
	}
	return nil
}

func (x *execution) conclude(err error) *ending {
	end := &ending{Outcome: x.engine.Outcome(), state: wire.StateCompleted, subtype: wire.ResultSuccess}
	if err != nil {
		end.state = wire.StateFailed
		end.explain(err)
	}
	end.state = x.run.Finish(end.state)
	end.reason = x.run.Reason()
	end.took = time.Since(x.started)
	x.log(end, err)
	return end
}

// release lets go of everything, should the run not have come to its end.
func (x *execution) release() {
	x.unbind()
	_ = x.closeSession() // which has logged it
	x.run.Finish(wire.StateFailed)
}

// closeSession gives the session free, once.
func (x *execution) closeSession() (err error) {
	if x.session == nil {
		return nil
	}
	defer func() {
		if err != nil {
			x.rt.cfg.Logger.Error("close session", "err", err, "session", x.sessionID, "runId", x.id)
		}
	}()
	defer recovered(&err)
	s := x.session
	x.session = nil
	if err = s.Close(); err != nil {
		err = fmt.Errorf("close session: %w", err)
	}
	return err
}

// recovered makes an error of a panic. It is for defer.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = &panicError{p, debug.Stack()}
	}
}

type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v\n%s", e.value, e.stack) }

// explain sorts a failure into what the API says of it.
func (e *ending) explain(err error) {
	var upstream *model.Error
	switch {
	case errors.As(err, &upstream):
		e.subtype, e.errorType = wire.ResultError, string(upstream.Code)
		e.message, e.retry = upstream.Message, upstream.RetryAfter
	case errors.Is(err, engine.ErrMaxTurns):
		e.subtype, e.errorType, e.message = wire.ResultMaxTurns, wire.ErrorTypeMaxTurns, engine.ErrMaxTurns.Error()
	case errors.Is(err, engine.ErrRunTimeout):
		e.subtype, e.errorType, e.message = wire.ResultExecution, wire.ErrorTypeTimeout, engine.ErrRunTimeout.Error()
	default:
		e.subtype, e.errorType, e.message, e.fault = wire.ResultExecution, wire.ErrorTypeExecution, "Internal error", true
	}
}

func (x *execution) log(end *ending, err error) {
	attrs := []slog.Attr{
		slog.String("runId", x.id), slog.String("agent", x.agent.id), slog.String("session", x.sessionID),
		slog.String("state", string(end.state)), slog.Int("turns", end.NumTurns),
		slog.Int64("inputTokens", end.Usage.InputTokens), slog.Int64("outputTokens", end.Usage.OutputTokens),
		slog.Int64("durationMs", end.took.Milliseconds()), slog.String("requestId", x.requestID),
	}
	level := slog.LevelInfo
	switch {
	case end.state == wire.StateCancelled:
		attrs = append(attrs, slog.String("reason", string(end.reason)))
	case err != nil:
		level = slog.LevelWarn
		if end.fault {
			level = slog.LevelError
		}
		attrs = append(attrs, slog.String("errorType", end.errorType), slog.Any("err", err))
		if cause := errors.Unwrap(err); cause != nil {
			attrs = append(attrs, slog.Any("cause", cause))
		}
	}
	if len(x.metadata) > 0 {
		attrs = append(attrs, slog.Any("metadata", loggable(x.metadata)))
	}
	x.rt.cfg.Logger.LogAttrs(x.run.Context(), level, "run", attrs...)
}

// loggable bounds what a caller can put into the log.
func loggable(metadata map[string]string) map[string]string {
	const keys, length = 16, 256
	short := make(map[string]string, min(len(metadata), keys))
	for _, key := range slices.Sorted(maps.Keys(metadata))[:min(len(metadata), keys)] {
		value := metadata[key]
		short[strings.ToValidUTF8(key[:min(len(key), length)], "")] = strings.ToValidUTF8(value[:min(len(value), length)], "")
	}
	return short
}
