package runtime

import (
	"context"
	"iter"
	"log/slog"

	"github.com/seed93082962/agenthost/runtime/engine"
	"github.com/seed93082962/agenthost/runtime/wire"
	"github.com/seed93082962/agenthost/sse"
)

// streamOutput writes events to an event stream. A failed write cancels the run: see
// sse.StreamConfig.OnError in execution.stream.
type streamOutput struct {
	stream *sse.Stream
	queued bool // an event is waiting for Flush
	logger *slog.Logger
	runID  string
}

// Emit implements engine.Output.
func (o *streamOutput) Emit(p wire.Payload) {
	var encodeErr error
	_ = o.stream.QueueFunc(sse.Event{Type: p.EventName()}, func(dst []byte) ([]byte, error) {
		var data []byte
		data, encodeErr = wire.AppendEvent(dst, p)
		return data, encodeErr
	})
	if encodeErr != nil {
		o.logger.Error("omit event from stream", "err", encodeErr, "run_id", o.runID)
	}
	o.queued = true
}

// Flush implements engine.Output.
func (o *streamOutput) Flush() {
	if o.queued {
		o.queued = false
		_ = o.stream.Flush()
	}
}

// observed passes events to Config.Observe before they are sent.
type observed struct {
	engine.Output
	x *execution
}

// Emit implements engine.Output.
func (o observed) Emit(p wire.Payload) {
	o.x.rt.cfg.Observe(o.x.info, wire.Event{Payload: p})
	o.Output.Emit(p)
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

// loopOutput yields events to a loop. It holds the last event until the next one or until Flush,
// which determines More.
type loopOutput struct {
	yield   func(wire.Event, error) bool
	leave   func() // cancels the run
	left    bool   // yield must not be called again
	held    wire.Payload
	partial wire.PartialMessage // a copy: the run reuses its own
}

// Emit implements engine.Output.
func (o *loopOutput) Emit(p wire.Payload) {
	o.release(true)
	if partial, ok := p.(*wire.PartialMessage); ok {
		o.partial = *partial
		p = &o.partial
	}
	o.held = p
}

// Flush implements engine.Output.
func (o *loopOutput) Flush() { o.release(false) }

func (o *loopOutput) release(more bool) {
	p := o.held
	if o.held = nil; p == nil || o.left {
		return
	}
	if !o.yield(wire.Event{Payload: p, More: more}, nil) {
		o.left = true
		o.leave()
	}
}
