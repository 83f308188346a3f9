package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"runtime"
	"time"

	"go.opentelemetry.io/otel/propagation"

	"github.com/seed93082962/agenthost/internal/jsonlimit"
	"github.com/seed93082962/agenthost/internal/runvalue"
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

// Stream sends the fields of a request with the tools of req, and yields the parts that dec decodes
// from the response, as model.Model specifies.
func (c *Client) Stream(ctx context.Context, req *model.Request, fields any, dec Decoder, yield func(model.Part, error) bool) {
	body, renamed, err := c.encodeBody(fields, req.Tools)
	if err != nil {
		yield(model.Part{}, fmt.Errorf("%s: encode model request: %w: %w", c.name, model.ErrUnsent, err))
		return
	}

	// Cancelling closes the connection immediately. Closing the body could wait to see whether the
	// connection can be used again.
	call, cancel := context.WithCancel(ctx)
	defer cancel()
	resp, err := c.open(ctx, call, cancel, body, req.Alive)
	if err != nil {
		yield(model.Part{}, err)
		return
	}

	defer func() { cancel(); _ = resp.Body.Close() }()

	r := &response{ctx: ctx, cancel: cancel, body: resp.Body, req: req, dec: dec, left: finishWait}
	r.inputs.renamed = renamed
	defer r.release()
	r.events = sse.NewDecoder(r)
	r.events.SetLimits(maxLine, maxEvent)
	r.events.SetNameLimit(maxName)
	whole, err := r.relay(yield)
	switch {
	case whole:
		within(endWait, cancel, func() { _, _ = io.CopyN(io.Discard, resp.Body, endBytes) })
	case err != nil:
		if ctx.Err() != nil {
			runtime.Gosched() // calls that were cancelled at the same time close their connections first
		}

		yield(model.Part{}, c.fault(ctx, err))
	}
}

// open sends the request and returns the response if it is an event stream.
func (c *Client) open(ctx, call context.Context, cancel context.CancelFunc, body *body, alive func()) (*http.Response, error) {
	resp, err := c.send(call, body)
	if err != nil && !body.read.Load() {
		err = fmt.Errorf("%w: %w", model.ErrUnsent, err)
	}

	switch {
	case err != nil && ctx.Err() != nil && errors.Is(err, model.ErrUnsent):
		return nil, fmt.Errorf("%w: %w", model.ErrUnsent, context.Cause(ctx))
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, &model.Error{Code: runvalue.ErrorTypeConnection, Message: "the connection to upstream failed", Err: err}
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

func (c *Client) send(ctx context.Context, body *body) (*http.Response, error) {
	// The bytes are released when they are sent, in every case.
	defer body.release()
	if body.size() <= smallBody {
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { body.read.Store(true) }})
	}

	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, nil)
	if err != nil {
		return nil, err
	}

	req.Header = maps.Clone(c.header)
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(req.Header)) // without a trace, it sets nothing
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

// response is the state of reading one response.
type response struct {
	ctx    context.Context    // the caller's
	cancel context.CancelFunc // of the call
	body   io.Reader
	req    *model.Request
	dec    Decoder
	events *sse.Decoder
	held   int           // memory of events that is reserved
	left   time.Duration // of finishWait
	line   errorLine
	parts  []model.Part // of an event
	inputs inputs
}

// release releases the memory of the events.
func (r *response) release() {
	if held := r.held + r.inputs.size; r.req.Reserve != nil && held > 0 {
		_ = r.req.Reserve(-held)
	}
}

// Read implements io.Reader for events, and reports every arrival to the caller.
func (r *response) Read(p []byte) (int, error) {
	if size := r.events.BufferSize(); r.req.Reserve != nil && size != r.held {
		if err := r.req.Reserve(size - r.held); err != nil {
			return 0, err
		}

		r.held = size
	}

	n, err := r.body.Read(p)
	if n > 0 && r.req.Alive != nil {
		r.req.Alive()
	}

	r.line.write(p[:n])
	return n, err
}

// relay yields parts until the response is complete (true), an error occurs, or yield returns false
// (false and nil).
//
// The last part of an event is held back while more events are in memory, because those may contain
// no part. More must not be set for a part that upstream has not sent yet.
func (r *response) relay(yield func(model.Part, error) bool) (bool, error) {
	for {
		err := r.read()
		n := len(r.parts)
		whole := n > 0 && r.parts[n-1].Kind == model.KindStop
		if whole {
			err = nil
		}

		keep := 0
		if n > 0 && !whole && err == nil && r.events.Buffered() {
			keep = 1
		}

		for i := range r.parts[:n-keep] {
			p := &r.parts[i]
			p.More = i < n-1
			if !yield(*p, nil) {
				return p.Kind == model.KindStop, nil
			}
		}

		if whole || err != nil {
			return whole, err
		}

		if keep == 1 {
			r.parts[0] = r.parts[n-1]
		}

		clear(r.parts[keep:]) // a text may be large, and the wait for the next event long
		r.parts = r.parts[:keep]
	}
}

// read reads one event, or the end, and appends its parts.
func (r *response) read() error {
	var ev sse.Event
	var err error
	if r.dec.Finished() {
		// The time that the reader of the parts takes is not counted.
		began := time.Now()
		within(r.left, r.cancel, func() { ev, err = r.events.Next() })
		r.left -= time.Since(began)
	} else {
		ev, err = r.events.Next()
	}

	if err != nil {
		return r.end(err)
	}

	if complexity.Check(ev.Data) != nil {
		return &model.Error{Code: runvalue.ErrorTypeServer, Message: "upstream sent an event with too many values"}
	}

	n := len(r.parts)
	r.parts, err = r.dec.Decode(r.parts, ev)
	if len(r.parts) > n {
		r.left = finishWait // the response continues
	}

	if err == nil {
		r.parts, err = r.inputs.restore(r.parts, n, r.req.Reserve)
	}

	return err
}

// end appends the last parts and returns the error of a response that is not complete.
func (r *response) end(err error) error {
	if r.ctx.Err() != nil {
		return err
	}

	n := len(r.parts)
	r.parts = r.dec.End(r.parts)
	var failed error
	if r.parts, failed = r.inputs.restore(r.parts, n, r.req.Reserve); failed != nil {
		return failed
	}

	if r.line.text != nil {
		fault := ParseFault(r.line.text)
		if !fault.reported() {
			fault.Message = string(r.line.text)
		}

		return fault
	}

	if errors.Is(err, io.EOF) {
		return ErrEnded
	}

	return err
}
