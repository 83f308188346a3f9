package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"time"

	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/sse"
)

const (
	// maxEvent bounds one event: some servers send a whole tool input at once.
	maxEvent = 8 << 20
	maxLine  = maxEvent + 16

	// endWait is how long the end of a body is waited for after the answer's last event, so that
	// the connection can be used again. A server that means to end it does so at once.
	endWait  = 50 * time.Millisecond
	endBytes = 64 << 10

	// errorWait and errorBytes bound the reading of an error's body.
	errorWait  = 5 * time.Second
	errorBytes = 64 << 10
)

// ErrEnded is the error of an answer that came to an end before it was whole.
var ErrEnded = fmt.Errorf("answer ended before it was whole: %w", io.ErrUnexpectedEOF)

// Decoder turns the events of one answer into parts. What it appends last in a whole answer is
// of kind [model.KindStop]. Its errors are a [*Fault] for what upstream told, [ErrEnded] or
// a [*model.Error].
type Decoder interface {
	// Decode appends the parts of one event; ev.Data is valid during the call only.
	Decode(parts []model.Part, ev sse.Event) ([]model.Part, error)

	// End appends what is still to be said when the stream ended, in whatever way, after the last
	// event: a stop part, where the answer was whole all the same. Without one it counts as
	// broken off.
	End(parts []model.Part) []model.Part
}

// Stream sends body and yields the parts that dec makes of the answer, as model.Model says.
func (c *Client) Stream(ctx context.Context, body *Body, alive func(), dec Decoder, yield func(model.Part, error) bool) {
	// Cancelling closes the connection at once; closing the response's body alone might wait to
	// see whether the connection can be saved.
	call, cancel := context.WithCancel(ctx)
	defer cancel()

	resp, err := c.send(call, body)
	if err != nil {
		yield(model.Part{}, c.unreachable(ctx, err))
		return
	}
	defer func() { cancel(); _ = resp.Body.Close() }()
	if alive == nil {
		alive = func() {}
	}
	alive()

	if err := c.check(resp, cancel); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		yield(model.Part{}, err)
		return
	}
	events := sse.NewDecoder(&watched{resp.Body, alive})
	events.Limit(maxLine, maxEvent)

	whole, err := relay(ctx, events, dec, yield)
	switch {
	case whole:
		within(endWait, cancel, func() { _, _ = io.CopyN(io.Discard, resp.Body, endBytes) })
	case err != nil:
		yield(model.Part{}, c.fault(ctx, err))
	}
}

// relay yields parts until the answer is whole (true), there is an error, or yield has had enough:
// false and nil.
//
// The last part of an event is kept back while more events are in memory, for those may make no
// part: More must not promise a part that upstream has yet to send.
func relay(ctx context.Context, events *sse.Decoder, dec Decoder, yield func(model.Part, error) bool) (bool, error) {
	var room [2]model.Part
	parts := room[:0]
	for {
		ev, err := events.Next()
		if err == nil {
			parts, err = dec.Decode(parts, ev)
		} else if ctx.Err() == nil {
			parts = dec.End(parts)
			if err == io.EOF {
				err = ErrEnded
			}
		}
		n := len(parts)
		whole := n > 0 && parts[n-1].Kind == model.KindStop
		if whole {
			err = nil
		}
		keep := 0
		if n > 0 && !whole && err == nil && events.Buffered() {
			keep = 1
		}
		for i := range parts[:n-keep] {
			p := &parts[i]
			p.More = i < n-1
			if !yield(*p, nil) {
				return p.Kind == model.KindStop, nil
			}
		}
		if whole || err != nil {
			return whole, err
		}
		if keep == 1 {
			parts[0] = parts[n-1]
		} else {
			clear(parts) // a text may be large, and the wait for the next event long
		}
		parts = parts[:keep]
	}
}

func (c *Client) send(ctx context.Context, body *Body) (*http.Response, error) {
	// Whatever comes of it, no one holds the bytes for longer than the sending takes.
	defer body.release()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, nil)
	if err != nil {
		return nil, err
	}
	req.Header = maps.Clone(c.header)
	req.ContentLength = body.size()
	req.GetBody = body.open // a kept connection that turns out closed is no reason to fail
	if req.Body, err = body.open(); err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	var where *url.Error
	if errors.As(err, &where) {
		err = where.Err // the address, with a query that may hold a secret, is not for the log
	}
	return resp, err
}

// watched tells of every arrival.
type watched struct {
	io.Reader
	alive func()
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	if n > 0 {
		w.alive()
	}
	return n, err
}

// within runs read, and has cancel cut it off after d.
func within(d time.Duration, cancel context.CancelFunc, read func()) {
	timer := time.AfterFunc(d, cancel)
	defer timer.Stop()
	read()
}
