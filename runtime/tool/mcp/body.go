package mcp

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/seed93082962/agenthost/sse"
)

const (
	// replyTime bounds the request that carries the response to a request of the server.
	replyTime = 3 * time.Second

	// The limits of the reconnection time, which the server may set.
	minRetry = 500 * time.Millisecond
	maxRetry = time.Minute
)

// received returns the body of a response as the SDK reads it: only messages that pass the filter.
func (w *web) received(req *http.Request, resp *http.Response, free func()) io.ReadCloser {
	b := &body{source: resp.Body, web: w, free: free, reply: func(data []byte) { w.reply(req, resp, data) }}
	b.failed = resp.StatusCode/100 != 2
	if !b.failed && isStream(resp.Header) {
		// An event at the end of a stream counts even without the empty line that completes it.
		b.events = sse.NewDecoder(io.MultiReader(resp.Body, strings.NewReader("\n\n")))
		b.events.SetLimits(maxMessage+16, maxMessage)
	}

	return b
}

// reply sends the response to a request that the server sent in resp. A server that does not accept
// it harms only itself, so errors are ignored.
func (w *web) reply(req *http.Request, resp *http.Response, data []byte) {
	target := w.target.Load()
	if target == nil { // an sse server that sends requests before it has received one
		return
	}

	ctx, cancel := context.WithTimeout(req.Context(), replyTime)
	defer cancel()
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, target.String(), bytes.NewReader(data))
	if err != nil {
		return
	}

	post.Header.Set("Content-Type", "application/json")
	post.Header.Set("Accept", "application/json, text/event-stream")
	for _, name := range []string{"Mcp-Session-Id", "Mcp-Protocol-Version"} {
		if v := cmp.Or(req.Header.Get(name), resp.Header.Get(name)); v != "" {
			post.Header.Set(name, v)
		}
	}

	if answer, err := w.client.Do(post); err == nil {
		answer.Body.Close()
	}
}

// body is the filtered body of one response: a stream of events, or one message.
type body struct {
	source io.ReadCloser
	web    *web
	free   func()
	reply  func([]byte)
	failed bool         // the status is an error: the body may have the reason
	events *sse.Decoder // nil: one message
	lastID string       // of the last event that was written to ready
	ready  bytes.Buffer // the bytes that Read returns next
	err    error        // what Read returns after them
}

func (b *body) Read(p []byte) (int, error) {
	for b.ready.Len() == 0 && b.err == nil {
		if b.events != nil {
			b.err = b.nextEvent()
		} else {
			b.err = b.wholeMessage()
		}
	}

	if b.ready.Len() > 0 {
		return b.ready.Read(p)
	}

	return 0, b.err
}

func (b *body) Close() error {
	err := b.source.Close()
	b.free()
	return err
}

// wholeMessage reads the body to its end.
func (b *body) wholeMessage() error {
	data, err := io.ReadAll(io.LimitReader(b.source, maxMessage+1))
	if err != nil {
		return err
	}

	if len(data) > maxMessage {
		b.web.end(errTooLarge)
		return errTooLarge
	}

	if b.failed {
		if msg := rejection(data); msg != nil {
			encoded, err := jsonrpc.EncodeMessage(msg)
			b.ready.Write(encoded)
			return cmp.Or(err, io.EOF)
		}

		return io.EOF
	}

	messages, err := b.web.filter.incoming(data, b.reply)
	for _, msg := range messages {
		if _, ok := msg.(*jsonrpc.Response); ok { // the SDK reads one message
			encoded, err := jsonrpc.EncodeMessage(msg)
			b.ready.Write(encoded)
			return cmp.Or(err, io.EOF)
		}
	}

	b.web.end(cmp.Or(err, errNoResponse))
	return io.EOF
}

// nextEvent writes the next event to ready if it has a message for the SDK, and otherwise nothing.
// The SDK resumes a stream at the last event, after the time that the server has set, which may
// both be in an event without a message.
func (b *body) nextEvent() error {
	ev, err := b.events.Next()
	if err != nil {
		if _, ok := errors.AsType[*sse.LimitError](err); ok {
			b.web.end(errTooLarge)
			return err
		}

		if id := b.events.LastEventID(); id != b.lastID {
			encoding := b.append(sse.Event{ID: id})
			return cmp.Or(encoding, err)
		}

		return err
	}

	out := sse.Event{Type: ev.Type, ID: ev.ID}
	switch {
	case ev.Type == "endpoint" && b.web.sse:
		out.Data = ev.Data
		return b.append(out)
	case ev.Type != "" && ev.Type != "message" || len(ev.Data) == 0:
		return nil
	}

	messages, err := b.web.filter.incoming(ev.Data, b.reply)
	if err != nil {
		b.web.end(err)
		return err
	}

	for _, msg := range messages {
		if out.Data, err = jsonrpc.EncodeMessage(msg); err != nil {
			return err
		}

		if err := b.append(out); err != nil {
			return err
		}
	}

	return nil
}

// append writes an event with the reconnection time of the stream.
func (b *body) append(ev sse.Event) error {
	if retry, ok := b.events.Retry(); ok {
		ev.Retry = min(max(retry, minRetry), maxRetry)
	}

	data, err := ev.Append(nil)
	b.ready.Write(data)
	b.lastID = ev.ID
	return err
}
