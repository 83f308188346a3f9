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

// ErrIncomplete is what a stream ends with that breaks off before its done event.
var ErrIncomplete = errors.New("event stream of the run broke off")

const (
	// maxEvent is above what a runtime sends in one event, [wire.MaxData], with its names around it.
	maxEvent = wire.MaxData + 64<<10
	// maxRest bounds what is read of an answer that is no stream, and after done.
	maxRest = 64 << 10
	// lastWait is how long the end of the stream may take to come after done. A runtime sends it
	// with done, but what stands between may keep the connection open.
	lastWait = 100 * time.Millisecond
)

// Run runs an agent and yields its events as they come; the last one is done. An error is the
// last thing yielded: an [*Error] where the runtime refused the run, [ErrIncomplete] where the stream
// broke off, the cause of ctx where that ended. A run that failed is no error but a [wire.Result]
// that says so.
//
// Ending the loop before done, or ctx, closes the connection, and that cancels the run. The
// request is sent when the sequence is ranged over, each time anew.
func (c *Client) Run(ctx context.Context, agentID string, req wire.RunRequest) iter.Seq2[wire.Event, error] {
	return func(yield func(wire.Event, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		res, err := c.send(ctx, http.MethodPost, runsPath(agentID), "text/event-stream", req)
		if err != nil {
			yield(wire.Event{}, err)
			return
		}
		defer res.Body.Close()
		if err := streaming(res); err != nil {
			yield(wire.Event{}, err)
			return
		}
		events := sse.NewDecoder(res.Body)
		events.Limit(maxEvent, maxEvent)
		for {
			ev, err := events.Next()
			if err != nil {
				yield(wire.Event{}, broken(ctx, err))
				return
			}
			payload, err := wire.DecodeEvent(ev.Type, ev.Data)
			if err != nil {
				yield(wire.Event{}, fmt.Errorf("read events of run: %w", err))
				return
			}
			more := yield(wire.Event{Payload: payload, More: events.Buffered()}, nil)
			if _, done := payload.(*wire.Done); done {
				// Who has read to the end of a body gives its connection back.
				limit := time.AfterFunc(lastWait, cancel)
				_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, maxRest))
				limit.Stop()
				return
			}
			if !more {
				return
			}
		}
	}
}

// streaming checks that the answer is an event stream.
func streaming(res *http.Response) error {
	if res.StatusCode == http.StatusOK {
		return expect(res, "text/event-stream")
	}
	data, err := io.ReadAll(io.LimitReader(res.Body, maxRest))
	if err != nil {
		return fmt.Errorf("read answer of runtime: %w", err)
	}
	return failure(res, data)
}

// broken words the error of a stream that ended before done, for whatever reason.
func broken(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("read events of run: %w", context.Cause(ctx))
	}
	if _, ok := errors.AsType[*sse.LimitError](err); ok {
		return fmt.Errorf("read events of run: %w", err)
	}
	if errors.Is(err, io.EOF) { // the body ended, and in good order
		return ErrIncomplete
	}
	return fmt.Errorf("%w: %w", ErrIncomplete, err)
}
