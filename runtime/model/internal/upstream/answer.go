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

// answer is what the reading of one answer needs.
type answer struct {
	ctx    context.Context    // the caller's
	cancel context.CancelFunc // of the call
	body   io.Reader
	alive  func() // may be nil
	dec    Decoder
	events *sse.Decoder
	left   time.Duration // of finishWait
	parts  []model.Part  // of an event, in room where they fit
	room   [2]model.Part
}

// answers keeps what has room for a burst of events: that would be most of a call's garbage.
var answers = sync.Pool{New: func() any {
	a := new(answer)
	a.events = sse.NewDecoder(nil)
	a.events.Limit(maxLine, maxEvent)
	return a
}}

//go:noinline
func newAnswer(ctx context.Context, cancel context.CancelFunc, body io.Reader, alive func(), dec Decoder) *answer {
	a := answers.Get().(*answer)
	a.ctx, a.cancel, a.body, a.alive, a.dec = ctx, cancel, body, alive, dec
	a.left = finishWait
	a.events.Reset(a)
	return a
}

// free gives a back. No part refers to an event's data: texts are copies. Nor may anything of this
// answer stay in memory for the next; Reset lets go of giant buffers.
func (a *answer) free() {
	a.events.Reset(nil)
	*a = answer{events: a.events}
	answers.Put(a)
}

// Read implements io.Reader for events, and tells of every arrival.
func (a *answer) Read(p []byte) (int, error) {
	n, err := a.body.Read(p)
	if n > 0 && a.alive != nil {
		a.alive()
	}
	return n, err
}

// relay yields parts until the answer is whole (true), there is an error, or yield has had enough:
// false and nil.
//
// The last part of an event is kept back while more events are in memory, for those may make no
// part: More must not promise a part that upstream has yet to send.
func (a *answer) relay(yield func(model.Part, error) bool) (bool, error) {
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

// read takes in one event, or the end.
func (a *answer) read() error {
	ev, err := a.next()
	if err != nil {
		return a.end(err)
	}
	n := len(a.parts)
	a.parts, err = a.dec.Decode(a.parts, ev)
	if len(a.parts) > n {
		a.left = finishWait // whoever says more after all is not silent
	}
	return err
}

func (a *answer) next() (sse.Event, error) {
	if a.dec.Finished() {
		return a.last()
	}
	return a.events.Next()
}

// last is next for what may come after the last part that counts, if anything does. What the
// reader of the parts takes is not in its time.
//
//go:noinline
func (a *answer) last() (ev sse.Event, err error) {
	began := time.Now()
	within(a.left, a.cancel, func() { ev, err = a.events.Next() })
	a.left -= time.Since(began)
	return ev, err
}

//go:noinline
func (a *answer) end(err error) error {
	if a.ctx.Err() != nil {
		return err
	}
	a.parts = a.dec.End(a.parts)
	if errors.Is(err, io.EOF) {
		return ErrEnded
	}
	return err
}
