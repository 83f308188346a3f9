package runtime

import (
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/seed93082962/agenthost/internal/excerpt"
	"github.com/seed93082962/agenthost/internal/httpapi"
	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/internal/engine"
	"github.com/seed93082962/agenthost/runtime/wire"
	"github.com/seed93082962/agenthost/sse"
)

// truncateMetadata limits what a caller can write to the log and to a span.
func truncateMetadata(metadata map[string]string) map[string]string {
	const keys, length = 16, 256
	short := make(map[string]string, min(len(metadata), keys))
	for _, key := range slices.Sorted(maps.Keys(metadata))[:min(len(metadata), keys)] {
		value := metadata[key]
		short[excerpt.Shorten(key, length)] = excerpt.Shorten(value, length)
	}

	return short
}

// write responds with the result as JSON.
func (res *result) write(w http.ResponseWriter, requestID string) error {
	if res.internal {
		return internal(requestID)
	}

	body := wire.RunResponse{
		RunID: res.info.RunID, SessionID: res.info.SessionID, State: res.state, Reason: res.reason,
		Text: res.Text, Structured: res.Structured, Usage: res.Usage, NumTurns: res.NumTurns,
		DurationMs: res.duration.Milliseconds(), StopReason: res.StopReason, Pending: res.Pending,
	}
	status := http.StatusOK
	if res.state == wire.StateFailed {
		body.Error, body.ErrorType, body.Errors = res.message, res.errorType, []string{res.message}
		status = http.StatusBadGateway
		if res.errorType == runvalue.ErrorTypeRateLimit {
			status = http.StatusTooManyRequests
		}

		if res.retryAfter > 0 {
			seconds := (res.retryAfter + time.Second - 1) / time.Second
			w.Header().Set("Retry-After", strconv.FormatInt(int64(seconds), 10))
		}
	}

	return httpapi.WriteJSON(w, status, body)
}

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
		data, encodeErr = wire.Event{Payload: p}.Append(dst)
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
