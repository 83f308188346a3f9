package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"mime"
	"net/http"

	hubwire "github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/jsonlimit"
	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/wire"
	"github.com/seed93082962/agenthost/sse"
)

// ErrIncomplete is the error of an answer that ends before its done event.
var ErrIncomplete = errors.New("event stream of the answer is incomplete")

const (
	// maxEvent is the largest event of an answer: [runvalue.MaxData] and the names of the fields.
	maxEvent = runvalue.MaxData + 64<<10
	// maxEventName is the largest value of an event field.
	maxEventName = 128
	// hubEvent is the name of the events that the hub adds to those of the runtime.
	hubEvent = "hub"
)

// Send sends a message and yields the events of the answer as they arrive: [*hubwire.Begun], those
// of the runtime such as [*wire.PartialMessage], [*hubwire.Notice], [*hubwire.Saved], and
// [*wire.Done]. The last one is done, or else an error: that of the hub if it rejected the message,
// [ErrIncomplete] if the stream ended before done, or the cause of ctx.
//
// Breaking out of the loop before done, or the end of ctx, closes the connection, which cancels the
// answer. Each loop over the sequence sends the message.
func (s Chats) Send(ctx context.Context, agent, session string, req hubwire.ChatMessageRequest) iter.Seq2[wire.Payload, error] {
	return func(yield func(wire.Payload, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel() // before the body is closed, which would wait for its end
		r, err := jsonRequest(http.MethodPost, chatPath(agent)+"/"+segment(session)+"/messages", req)
		if err != nil {
			yield(nil, err)
			return
		}

		r.accept = "text/event-stream, application/json"
		res, err := s.c.do(ctx, r)
		if err != nil {
			yield(nil, err)
			return
		}
		defer res.Body.Close()
		if media, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); media == jsonMedia {
			repeated, err := repetition(res.Body)
			yield(repeated, err)
			return
		}

		if err := expect(res, "text/event-stream"); err != nil {
			yield(nil, err)
			return
		}

		stream(ctx, res.Body, yield)
	}
}

// repetition decodes the response to a message that was sent before.
func repetition(body io.Reader) (wire.Payload, error) {
	data, err := io.ReadAll(io.LimitReader(body, maxBody))
	if err == nil {
		err = complexity.Check(data)
	}

	repeated := &hubwire.RepeatedMessage{}
	if err == nil {
		err = jsonlimit.Unmarshal(data, repeated)
	}

	if err != nil {
		return nil, fmt.Errorf("read response of hub: %w", err)
	}

	return repeated, nil
}

// stream yields the events of an answer.
func stream(ctx context.Context, body io.Reader, yield func(wire.Payload, error) bool) {
	events := sse.NewDecoder(body)
	events.SetLimits(maxEvent, maxEvent)
	events.SetNameLimit(maxEventName)
	for {
		ev, err := events.Next()
		if err == nil {
			err = complexity.Check(ev.Data)
		}

		if err != nil {
			yield(nil, streamError(ctx, err))
			return
		}

		payload, err := decodeEvent(ev)
		if err != nil {
			yield(nil, fmt.Errorf("read events of answer: %w", err))
			return
		}

		_, ended := payload.(*wire.Done)
		if !yield(payload, nil) || ended {
			return
		}
	}
}

// streamError returns the error of a stream that ended before done.
func streamError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("read events of answer: %w", context.Cause(ctx))
	}

	if _, ok := errors.AsType[*sse.LimitError](err); ok {
		return fmt.Errorf("read events of answer: %w", err)
	}

	if errors.Is(err, io.EOF) { // the body ended without an error
		return ErrIncomplete
	}

	return fmt.Errorf("%w: %w", ErrIncomplete, err)
}

// decodeEvent decodes an event. One of the runtime that has another form is a [*wire.Unknown]: it
// hides no other event.
func decodeEvent(ev sse.Event) (wire.Payload, error) {
	if ev.Type != hubEvent {
		payload, err := wire.DecodeEvent(ev.Type, ev.Data)
		if err != nil {
			payload = &wire.Unknown{Name: ev.Type, Data: bytes.Clone(ev.Data)}
		}

		return payload, nil
	}

	var kind struct {
		Type string `json:"type"`
	}
	if err := jsonlimit.Unmarshal(ev.Data, &kind); err != nil {
		return nil, err
	}

	var payload wire.Payload
	switch kind.Type {
	case hubEvent:
		payload = &hubwire.Begun{}
	case "hub.notice":
		payload = &hubwire.Notice{}
	case "hub.saved":
		payload = &hubwire.Saved{}
	default: // of a later version
		return wire.DecodeEvent(kind.Type, ev.Data)
	}

	return payload, jsonlimit.Unmarshal(ev.Data, payload)
}
