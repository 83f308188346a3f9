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

	"github.com/seed93082962/agenthost/internal/jsonlimit"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/sse"
)

const (
	// maxEvent bounds one event: some servers send a complete tool input in one event.
	maxEvent = 8 << 20
	maxLine  = maxEvent + 16

	// endWait bounds the wait for the end of a body after the last event of the response, so that
	// the connection can be used again.
	endWait  = 50 * time.Millisecond
	endBytes = 64 << 10

	// finishWait bounds the wait for the usage and the end mark of a finished response: some
	// servers send neither and leave the connection open.
	finishWait = 5 * time.Second

	// errorWait and errorBytes bound the reading of an error's body.
	errorWait  = 5 * time.Second
	errorBytes = 64 << 10
)

// ErrEnded is the error of a response that ended before it was complete.
var ErrEnded = fmt.Errorf("response ended before it was complete: %w", io.ErrUnexpectedEOF)

// complexity bounds the values of one event.
var complexity = jsonlimit.Limit{Values: 1 << 18}

//go:noinline
func errTooComplex() error {
	return &model.Error{Code: model.CodeServer, Message: "upstream sent an event with too many values"}
}

// Decoder decodes the events of one response into parts. The last part of a complete response is of
// kind [model.KindStop]. Its errors are a [*Fault] that upstream reported, [ErrEnded] or a
// [*model.Error].
type Decoder interface {
	// Decode appends the parts of one event. ev.Data is valid only during the call.
	Decode(parts []model.Part, ev sse.Event) ([]model.Part, error)

	// Finished reports whether every required part of the response has been decoded.
	Finished() bool

	// End appends the last parts when the stream has ended in any way after the last event: a stop
	// part if the response is complete. Without a stop part the response counts as cut off.
	End(parts []model.Part) []model.Part
}

// maxName bounds the name and the id of an event.
const maxName = 1 << 10

// Stream sends body and yields the parts that dec decodes from the response, as model.Model
// specifies.
//
// An open stream waits here for most of its life, and its stack is most of its memory. The state of
// the wait is in a response, which is recycled. Work that is done once is in separate functions,
// whose frames have been popped by then.
func (c *Client) Stream(ctx context.Context, body *Body, req *model.Request, dec Decoder, yield func(model.Part, error) bool) {
	// Cancelling closes the connection immediately. Closing the body could wait to see whether the
	// connection can be used again.
	call, cancel := context.WithCancel(ctx)
	defer cancel()

	resp, err := c.open(ctx, call, cancel, body, req.Alive)
	if err != nil {
		failed(yield, err)
		return
	}
	defer func() { cancel(); _ = resp.Body.Close() }()

	a := newAnswer(ctx, cancel, resp.Body, req, dec)
	whole, err := a.relay(yield)
	a.free()
	switch {
	case whole:
		drain(resp.Body, cancel)
	case err != nil:
		failed(yield, c.fault(ctx, err))
	}
}

// open sends the request and returns the response if it is an event stream.
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
	// The bytes are released when they are sent, in every case.
	defer body.release()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, nil)
	if err != nil {
		return nil, err
	}
	req.Header = maps.Clone(c.header)
	req.ContentLength = body.size()
	req.GetBody = body.open // an idle connection may turn out to be closed
	if req.Body, err = body.open(); err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if where, ok := errors.AsType[*url.Error](err); ok {
		err = where.Err // without the address: its query may contain a secret
	}
	return resp, err
}

// within calls read, and cancel after d if read has not returned.
func within(d time.Duration, cancel context.CancelFunc, read func()) {
	timer := time.AfterFunc(d, cancel)
	defer timer.Stop()
	read()
}
