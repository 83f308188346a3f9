package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"mime"
	"net/http"

	"github.com/seed93082962/agenthost/runtime/wire"
	"github.com/seed93082962/agenthost/sse"
)

// ErrIncomplete is what a stream ends with that breaks off before its done event.
var ErrIncomplete = errors.New("event stream of the run broke off")

// maxEvent is above what a runtime sends in one event, [wire.MaxData], with its names around it.
const maxEvent = wire.MaxData + 64<<10

// Run runs an agent and yields its events as they come; the last one is done. An error is the
// last thing yielded: an [*Error] where the runtime refused the run, [ErrIncomplete] where the stream
// broke off. A run that failed is no error but a [wire.Result] that says so.
//
// Ending the loop early, or ctx, closes the connection, and that cancels the run. The request is
// sent when the sequence is ranged over, each time anew.
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
			if !yield(wire.Event{Payload: payload, More: events.Buffered()}, nil) {
				return
			}
			if _, done := payload.(*wire.Done); done {
				// Reading to the end gives the connection back for the next request.
				_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 4096))
				return
			}
		}
	}
}

// streaming checks that the answer is an event stream.
func streaming(res *http.Response) error {
	media, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if res.StatusCode == http.StatusOK && media == "text/event-stream" {
		return nil
	}
	data, err := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	if err != nil {
		return fmt.Errorf("read answer of runtime: %w", err)
	}
	if res.StatusCode == http.StatusOK {
		return fmt.Errorf("read answer of runtime: it is %q, not an event stream", media)
	}
	return failure(res, data)
}

func broken(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("read events of run: %w", context.Cause(ctx))
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return ErrIncomplete
	}
	return fmt.Errorf("read events of run: %w", err)
}
