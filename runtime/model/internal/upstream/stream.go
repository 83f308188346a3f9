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

	// finishWait is how long what may follow a finished answer is waited for, its usage and the mark
	// of its end: there are servers that send neither, and leave the connection open.
	finishWait = 5 * time.Second

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

	// Finished reports whether everything that an answer needs has come, so that the rest need not
	// be waited for long.
	Finished() bool

	// End appends what is still to be said when the stream ended, in whatever way, after the last
	// event: a stop part, where the answer was whole all the same. Without one it counts as
	// broken off.
	End(parts []model.Part) []model.Part
}

// Stream sends body and yields the parts that dec makes of the answer, as model.Model says.
//
// An open stream waits in here for most of its life, and its stack is most of the memory it takes.
// What the wait needs is in an answer, on the heap and used again; what is done but once stands
// in functions of its own, whose frames are gone by then.
func (c *Client) Stream(ctx context.Context, body *Body, alive func(), dec Decoder, yield func(model.Part, error) bool) {
	// Cancelling closes the connection at once; closing the response's body alone might wait to
	// see whether the connection can be saved.
	call, cancel := context.WithCancel(ctx)
	defer cancel()

	resp, err := c.open(ctx, call, cancel, body, alive)
	if err != nil {
		failed(yield, err)
		return
	}
	defer func() { cancel(); _ = resp.Body.Close() }()

	a := newAnswer(ctx, cancel, resp.Body, alive, dec)
	whole, err := a.relay(yield)
	a.free()
	switch {
	case whole:
		drain(resp.Body, cancel)
	case err != nil:
		failed(yield, c.fault(ctx, err))
	}
}

// open makes the call and returns its answer where that is an event stream.
//
//go:noinline
func (c *Client) open(ctx, call context.Context, cancel context.CancelFunc, body *Body, alive func()) (*http.Response, error) {
	resp, err := c.send(call, body)
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	if alive != nil {
		alive()
	}
	if err := c.check(resp, cancel); err != nil {
		cancel()
		_ = resp.Body.Close()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, err
	}
	return resp, nil
}

//go:noinline
func failed(yield func(model.Part, error) bool, err error) { yield(model.Part{}, err) }

//go:noinline
func drain(body io.Reader, cancel context.CancelFunc) {
	within(endWait, cancel, func() { _, _ = io.CopyN(io.Discard, body, endBytes) })
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
	if where, ok := errors.AsType[*url.Error](err); ok {
		err = where.Err // the address, with a query that may hold a secret, is not for the log
	}
	return resp, err
}

// within runs read, and has cancel cut it off after d.
func within(d time.Duration, cancel context.CancelFunc, read func()) {
	timer := time.AfterFunc(d, cancel)
	defer timer.Stop()
	read()
}
