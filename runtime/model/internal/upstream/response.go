package upstream

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/sse"
)

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
	line   []byte        // the latest error line, see errorLine
	parts  []model.Part  // of an event, in room where they fit
	room   [2]model.Part
}

// responses recycles decoders with room for a burst of events, which would be most of a call's
// garbage.
var responses = sync.Pool{New: func() any {
	a := new(response)
	a.events = sse.NewDecoder(nil)
	a.events.SetLimits(maxLine, maxEvent)
	a.events.SetNameLimit(maxName)
	return a
}}

//go:noinline
func newAnswer(ctx context.Context, cancel context.CancelFunc, body io.Reader, req *model.Request, dec Decoder) *response {
	a := responses.Get().(*response)
	a.ctx = ctx
	a.cancel = cancel
	a.body = body
	a.req = req
	a.dec = dec
	a.left = finishWait
	a.events.Reset(a)
	return a
}

// free returns a to the pool. No part refers to the data of an event: texts are copies. Reset
// releases large buffers.
func (a *response) free() {
	if a.held > 0 {
		_ = a.req.Reserve(-a.held)
	}
	a.events.Reset(nil)
	*a = response{events: a.events}
	responses.Put(a)
}

// Read implements io.Reader for events, and reports every arrival to the caller.
func (a *response) Read(p []byte) (int, error) {
	if a.req.Reserve != nil && a.events.BufferSize() != a.held {
		size := a.events.BufferSize()
		if err := a.req.Reserve(size - a.held); err != nil {
			return 0, err
		}
		a.held = size
	}
	n, err := a.body.Read(p)
	if n > 0 && a.req.Alive != nil {
		a.req.Alive()
	}
	if line := errorLine(p[:n]); line != nil {
		a.line = line
	}
	return n, err
}

// relay yields parts until the response is complete (true), an error occurs, or yield returns false
// (false and nil).
//
// The last part of an event is held back while more events are in memory, because those may contain
// no part. More must not be set for a part that upstream has not sent yet.
func (a *response) relay(yield func(model.Part, error) bool) (bool, error) {
	a.parts = a.room[:0]
	for {
		err := a.read()
		n := len(a.parts)
		whole := n > 0 && a.parts[n-1].Kind == model.KindStop
		if whole {
			err = nil
		}
		keep := 0
		if n > 0 && !whole && err == nil && a.events.Buffered() {
			keep = 1
		}
		for i := range a.parts[:n-keep] {
			p := &a.parts[i]
			p.More = i < n-1
			if !yield(*p, nil) {
				return p.Kind == model.KindStop, nil
			}
		}
		if whole || err != nil {
			return whole, err
		}
		if keep == 1 {
			a.parts[0] = a.parts[n-1]
		}
		clear(a.parts[keep:]) // a text may be large, and the wait for the next event long
		a.parts = a.parts[:keep]
	}
}

// read reads one event, or the end.
func (a *response) read() error {
	ev, err := a.next()
	if err != nil {
		return a.end(err)
	}
	if complexity.Check(ev.Data) != nil {
		return errTooComplex()
	}
	n := len(a.parts)
	a.parts, err = a.dec.Decode(a.parts, ev)
	if len(a.parts) > n {
		a.left = finishWait // the response continues
	}
	return err
}

func (a *response) next() (sse.Event, error) {
	if a.dec.Finished() {
		return a.last()
	}
	return a.events.Next()
}

// last reads the next event after the last required part. The time that the reader of the parts
// takes is not counted.
//
//go:noinline
func (a *response) last() (ev sse.Event, err error) {
	began := time.Now()
	within(a.left, a.cancel, func() { ev, err = a.events.Next() })
	a.left -= time.Since(began)
	return ev, err
}

//go:noinline
func (a *response) end(err error) error {
	if a.ctx.Err() != nil {
		return err
	}
	a.parts = a.dec.End(a.parts)
	if a.line != nil {
		return ParseFault(a.line)
	}
	if errors.Is(err, io.EOF) {
		return ErrEnded
	}
	return err
}
