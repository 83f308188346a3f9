package runtime

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
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
	requestID string
	metadata  map[string]string
	started   time.Time
	run       *run.Run
	session   session.Session // until the run has ended
	sessionID string
	engine    *engine.Run
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

// execute runs the agent, hands each event to send, and returns how it ended. Panics of models
// end the run alone.
func (x *execution) execute(send func(wire.Event)) ending {
	err := func() (err error) {
		defer func() {
			if p := recover(); p != nil {
				err = &panicError{p, debug.Stack()}
			}
		}()
		for ev, err := range x.engine.Events(x.run.Context()) {
			if err != nil {
				return err
			}
			send(ev)
		}
		return nil
	}()
	// The session is free before anybody hears that the run is over.
	if closeErr := x.session.Close(); err == nil && closeErr != nil {
		err = fmt.Errorf("close session: %w", closeErr)
	}
	end := ending{Outcome: x.engine.Outcome(), state: wire.StateCompleted, subtype: wire.ResultSuccess}
	if err != nil {
		end.state = wire.StateFailed
		end.explain(err)
	}
	end.state = x.run.Finish(end.state)
	end.reason = x.run.Reason()
	end.took = time.Since(x.started)
	x.log(&end, err)
	return end
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
		attrs = append(attrs, slog.Any("metadata", x.metadata))
	}
	x.rt.cfg.Logger.LogAttrs(x.run.Context(), level, "run", attrs...)
}
