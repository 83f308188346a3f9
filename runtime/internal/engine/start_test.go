package engine_test

import (
	"context"
	"errors"
	"iter"

	"github.com/seed93082962/agenthost/runtime/internal/engine"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// started is one run of an engine as a sequence of events.
type started struct {
	engine  *engine.Engine
	input   engine.Input
	outcome *engine.Outcome
}

func start(e *engine.Engine, in engine.Input) *started { return &started{engine: e, input: in} }

var errBreak = errors.New("the loop over the events has ended")

// Events executes the run and yields its events, then its error. Breaking out of the loop cancels
// the run.
func (s *started) Events(ctx context.Context) iter.Seq2[wire.Event, error] {
	return func(yield func(wire.Event, error) bool) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		left := false
		var err error
		s.outcome, err = s.engine.Run(ctx, s.input, engine.OutputFunc(func(p wire.Payload) {
			if !left && !yield(wire.Event{Payload: p}, nil) {
				left = true
				cancel(errBreak)
			}
		}))
		if err != nil && !left {
			yield(wire.Event{}, err)
		}
	}
}

// Outcome returns the outcome of the run after the loop over Events.
func (s *started) Outcome() engine.Outcome { return *s.outcome }
