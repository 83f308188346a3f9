package client

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"mime"
	"net/http"
	"net/url"
	"time"

	"github.com/seed93082962/agenthost/hub/internal/bodies"
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
// answer. With OnDisconnect "continue" it does not, and Send continues after a lost connection as
// [Chats.Events] does; with a ClientMessageID or answers, also before the first event. Each loop
// over the sequence sends the message.
func (s Chats) Send(ctx context.Context, agent, session string, req hubwire.ChatMessageRequest) iter.Seq2[wire.Payload, error] {
	return func(yield func(wire.Payload, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel() // before the body is closed, which would wait for its end
		path := chatPath(agent) + "/" + segment(session) + "/messages"
		r, err := jsonRequest(http.MethodPost, path, req)
		if err != nil {
			yield(nil, err)
			return
		}

		r.accept = "text/event-stream, application/json"
		a := &following{c: s.c, yield: yield}
		if req.OnDisconnect == "continue" {
			a.messages = path
		}

		err = a.send(ctx, r)
		for again := req.ClientMessageID != "" || len(req.Answers) > 0; again && a.messages != "" && a.path == "" && disconnected(err) && a.lost(ctx, err); {
			err = a.send(ctx, r)
		}

		if a.path != "" {
			err = a.follow(ctx, err)
		}

		if err != nil && !a.stopped {
			yield(nil, err)
		}
	}
}

// SendInBackground sends a message whose answer continues without a client, and returns the ids of
// the session and of the messages. If a message with the same ClientMessageID was sent before, the
// ids are those of it.
func (s Chats) SendInBackground(ctx context.Context, agent, session string, req hubwire.ChatMessageRequest) (hubwire.Begun, error) {
	req.Background, req.OnDisconnect = true, ""
	body, err := send[struct {
		bodies.ChatMessageIDs
		hubwire.RepeatedMessage
	}](ctx, s.c, http.MethodPost, chatPath(agent)+"/"+segment(session)+"/messages", req)
	return hubwire.Begun{
		SessionID:          session,
		UserMessageID:      cmp.Or(body.UserMessageID, body.UserMessage.ID),
		AssistantMessageID: cmp.Or(body.AssistantMessageID, body.AssistantMessage.ID),
	}, err
}

// Events yields the events of an answer from its start, as [Chats.Send] does, and continues after a
// lost connection with the next event. An answer that ended some time ago is one [*wire.Assistant].
// After a [*hubwire.Gap], the answer begins again with all that there is of it. Breaking out of the
// loop does not cancel the answer.
func (s Chats) Events(ctx context.Context, agent, session, message string) iter.Seq2[wire.Payload, error] {
	return s.c.events(ctx, eventsPath(chatPath(agent)+"/"+segment(session)+"/messages", message))
}

// Events yields the events of an answer of any user, see [Chats.Events]. The user id is that of
// [History.Get].
func (h History) Events(ctx context.Context, id, user, message string) iter.Seq2[wire.Payload, error] {
	path := eventsPath(historyPath+"/"+segment(id)+"/messages", message)
	return h.c.events(ctx, withQuery(path, url.Values{"user": {user}}))
}

func eventsPath(messages, message string) string {
	return messages + "/" + segment(message) + "/events"
}

func (c *Client) events(ctx context.Context, path string) iter.Seq2[wire.Payload, error] {
	return func(yield func(wire.Payload, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		a := &following{c: c, yield: yield, path: path}
		if err := a.follow(ctx, a.receive(ctx)); err != nil && !a.stopped {
			yield(nil, err)
		}
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

// lostFor is the time without an event after which an answer is given up.
const lostFor = 5 * time.Minute

// following is an answer that is received over several connections.
type following struct {
	c        *Client
	yield    func(wire.Payload, error) bool
	messages string // the path of the messages of the session, if the answer continues
	path     string // of the events, if they can be received again
	lastID   string
	since    time.Time // of the first failure after an event
	pause    time.Duration
	stopped  bool // the last event was yielded, or the caller wants no further one
}

// send sends the message and receives the events of the response.
func (a *following) send(ctx context.Context, r request) error {
	res, err := a.c.do(ctx, r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if media, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); media == jsonMedia {
		repeated, err := repetition(res.Body)
		if again, ok := repeated.(*hubwire.RepeatedMessage); ok && !a.since.IsZero() { // it was sent by the attempt before
			a.path = eventsPath(a.messages, again.AssistantMessage.ID)
			return a.receive(ctx)
		}

		a.yield(repeated, err)
		a.stopped = true
		return nil
	}

	if err := expect(res, "text/event-stream"); err != nil {
		return err
	}

	return a.read(ctx, res.Body)
}

// receive receives the events after the last one.
func (a *following) receive(ctx context.Context) error {
	r := request{method: http.MethodGet, path: a.path, accept: "text/event-stream", header: http.Header{}}
	if a.lastID != "" {
		r.header.Set("Last-Event-ID", a.lastID)
	}

	res, err := a.c.do(ctx, r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusNoContent { // the last event was received
		a.stopped = true
		return nil
	}

	if err := expect(res, "text/event-stream"); err != nil {
		return err
	}

	return a.read(ctx, res.Body)
}

// follow receives the events again while the connection is lost.
func (a *following) follow(ctx context.Context, err error) error {
	for a.lost(ctx, err) {
		err = a.receive(ctx)
	}

	return err
}

// disconnected reports whether there was no response, or only the begin of one.
func disconnected(err error) bool {
	_, network := errors.AsType[*url.Error](err)
	return network || errors.Is(err, ErrIncomplete)
}

// lost waits before the next attempt, and reports whether the error may be that of a connection.
func (a *following) lost(ctx context.Context, err error) bool {
	if err == nil || a.stopped || ctx.Err() != nil {
		return false
	}

	if e, ok := errors.AsType[*hubwire.Error](err); !disconnected(err) && (!ok || !temporary(e)) {
		return false
	}

	if a.since.IsZero() {
		a.since, a.pause = time.Now(), firstPause
	}

	if time.Since(a.since) > lostFor {
		return false
	}

	timer := time.NewTimer(a.pause)
	defer timer.Stop()
	a.pause = min(2*a.pause, maxPause)
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// read yields the events of a connection.
func (a *following) read(ctx context.Context, body io.Reader) error {
	events := sse.NewDecoder(body)
	events.SetLimits(maxEvent, maxEvent)
	events.SetNameLimit(maxEventName)
	for {
		ev, err := events.Next()
		if err == nil {
			err = complexity.Check(ev.Data)
		}

		if err != nil {
			return streamError(ctx, err)
		}

		payload, err := decodeEvent(ev)
		if err != nil {
			return fmt.Errorf("read events of answer: %w", err)
		}

		if begun, ok := payload.(*hubwire.Begun); ok && a.messages != "" {
			a.path = eventsPath(a.messages, begun.AssistantMessageID)
		}

		if id := events.LastEventID(); id != "" {
			a.lastID = id
		}

		a.since = time.Time{}
		_, ended := payload.(*wire.Done)
		if !a.yield(payload, nil) || ended {
			a.stopped = true
			return nil
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
	case "hub.gap":
		payload = &hubwire.Gap{}
	case "hub.notice":
		payload = &hubwire.Notice{}
	case "hub.saved":
		payload = &hubwire.Saved{}
	default: // of a later version
		return wire.DecodeEvent(kind.Type, ev.Data)
	}

	return payload, jsonlimit.Unmarshal(ev.Data, payload)
}
