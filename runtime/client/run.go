package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"time"

	"github.com/seed93082962/agenthost/runtime/wire"
	"github.com/seed93082962/agenthost/sse"
)

// ErrIncomplete is the error of a stream that ends before its done event.
var ErrIncomplete = errors.New("event stream of the run is incomplete")

const (
	// maxEvent is the largest event of a runtime: [wire.MaxData] and the names of the fields.
	maxEvent = wire.MaxData + 64<<10
	// maxName is the largest value of an event or id field.
	maxName = 128
	// maxRest limits the bytes that are read from an error response, and from a stream after done.
	maxRest = 64 << 10
	// lastWait is the time to wait for the end of the stream after done. A runtime sends both
	// together, but a proxy may keep the connection open.
	lastWait = 100 * time.Millisecond
)

// Run runs an agent and yields its events as they arrive. The last one is done, or else an error:
// an [*Error] if the runtime rejected the request, [ErrIncomplete] if the stream ended before done,
// or the cause of ctx. A failed run is not an error: its [wire.Result] reports the failure.
//
// Breaking out of the loop before done, or the end of ctx, closes the connection, which cancels the
// run. Each loop over the sequence sends a request.
func (c *Client) Run(ctx context.Context, agentID string, req wire.RunRequest) iter.Seq2[wire.Event, error] {
	return func(yield func(wire.Event, error) bool) {
		events, err := c.Open(ctx, agentID, req)
		if err != nil {
			yield(wire.Event{}, err)
			return
		}
		defer func() { _ = events.Close() }() // Next has returned the error
		for {
			ev, err := events.Next()
			if err != nil {
				yield(wire.Event{}, err)
				return
			}
			payload, err := wire.DecodeEvent(ev.Type, ev.Data)
			if err != nil {
				yield(wire.Event{}, fmt.Errorf("read events of run: %w", err))
				return
			}
			more := yield(wire.Event{Payload: payload, More: events.Buffered()}, nil)
			if events.done || !more {
				return
			}
		}
	}
}

// streaming checks that the response is an event stream.
func streaming(res *http.Response) error {
	if res.StatusCode == http.StatusOK {
		return expect(res, "text/event-stream")
	}
	data, err := io.ReadAll(io.LimitReader(res.Body, maxRest))
	if err != nil {
		return fmt.Errorf("read response of runtime: %w", err)
	}
	return failure(res, data)
}

// streamError returns the error of a stream that ended before done.
func streamError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("read events of run: %w", context.Cause(ctx))
	}
	_, tooLong := errors.AsType[*sse.LimitError](err)
	if _, refused := errors.AsType[*reserveError](err); refused || tooLong {
		return fmt.Errorf("read events of run: %w", err)
	}
	if errors.Is(err, io.EOF) { // the body ended without an error
		return ErrIncomplete
	}
	return fmt.Errorf("%w: %w", ErrIncomplete, err)
}
