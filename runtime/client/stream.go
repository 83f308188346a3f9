package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/seed93082962/agenthost/runtime/wire"
	"github.com/seed93082962/agenthost/sse"
)

// Stream is the response to a run as it was received, for a relay that forwards events without
// decoding them. Only Received is safe for concurrent use.
type Stream struct {
	ctx    context.Context
	cancel context.CancelFunc
	body   *body
	events *sse.Decoder
	done   bool
}

// Open starts a run and returns its events. The error is that of [Client.Run] before the first
// event. The caller closes the stream. The end of ctx closes the connection, which cancels the run.
func (c *Client) Open(ctx context.Context, agentID string, req wire.RunRequest) (*Stream, error) {
	ctx, cancel := context.WithCancel(ctx)
	res, err := c.send(ctx, http.MethodPost, runsPath(agentID), "text/event-stream", req) //nolint:bodyclose // Close closes it
	if err != nil {
		cancel()
		return nil, err
	}
	s := &Stream{ctx: ctx, cancel: cancel, body: &body{ReadCloser: res.Body, reserve: c.reserve}}
	if err := streaming(res); err != nil {
		_ = s.Close()
		return nil, err
	}
	s.events = sse.NewDecoder(s.body)
	s.events.SetLimits(maxEvent, maxEvent)
	s.events.SetNameLimit(maxName)
	s.body.events = s.events
	return s, nil
}

// Next returns the next event, whose data is valid until the next call. The last one is done. The
// error is [ErrIncomplete], an [*sse.LimitError], the error of [Config.Reserve], or the cause of the
// context.
func (s *Stream) Next() (sse.Event, error) {
	ev, err := s.events.Next()
	if err == nil {
		err = s.body.hold()
	}
	if err != nil {
		return sse.Event{}, streamError(s.ctx, cmp.Or(s.body.refused, err))
	}
	if !validName(ev.Type) {
		return sse.Event{}, fmt.Errorf("read events of run: %q is not the name of an event", ev.Type)
	}
	if err := complexity.Check(ev.Data); err != nil {
		return sse.Event{}, fmt.Errorf("read events of run: %w", err)
	}
	s.done = ev.Type == doneEvent
	return ev, nil
}

// validName reports whether name may be that of an event, also of a later version. There is one for
// each token.
func validName(name string) bool {
	for i := range len(name) {
		if c := name[i]; (c < 'a' || c > 'z') && c != '_' && c != '.' {
			return false
		}
	}
	return name != "" && len(name) <= 64
}

var doneEvent = (*wire.Done)(nil).EventName()

// Buffered reports whether Next returns another event without a read.
func (s *Stream) Buffered() bool { return s.events.Buffered() }

// Received returns the number of bytes that have been received so far, comments included.
func (s *Stream) Received() int64 { return s.body.n.Load() }

// Close closes the stream. If the last event was not done, the run is cancelled.
func (s *Stream) Close() error {
	defer s.cancel()
	if s.done {
		// The connection can be reused only if its body was read to the end.
		limit := time.AfterFunc(lastWait, s.cancel)
		_, _ = io.Copy(io.Discard, io.LimitReader(s.body, maxRest))
		limit.Stop()
	}
	defer s.body.release()
	if err := s.body.Close(); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("close event stream: %w", err)
	}
	return nil
}

// body counts the bytes of a response, and reserves the memory of its decoder before each Read.
type body struct {
	io.ReadCloser
	n        atomic.Int64
	events   *sse.Decoder // nil before the first event
	reserve  func(bytes int) error
	reserved int
	refused  error // a *reserveError
}

// reserveError is the error of [Config.Reserve].
type reserveError struct{ error }

func (e *reserveError) Unwrap() error { return e.error }

func (b *body) Read(p []byte) (int, error) {
	if err := b.hold(); err != nil {
		return 0, err
	}
	n, err := b.ReadCloser.Read(p)
	b.n.Add(int64(n))
	return n, err
}

// hold reserves or releases memory until it is that of the decoder.
func (b *body) hold() error {
	if b.events == nil || b.events.BufferSize() == b.reserved {
		return nil
	}
	size := b.events.BufferSize()
	if err := b.reserve(size - b.reserved); err != nil {
		b.refused = &reserveError{err}
		return b.refused
	}
	b.reserved = size
	return nil
}

// release releases the memory of the decoder.
func (b *body) release() {
	if b.reserved > 0 {
		_ = b.reserve(-b.reserved)
	}
	b.events, b.reserved = nil, 0
}
