package client

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/wire"
	"github.com/seed93082962/agenthost/sse"
)

// ErrIncomplete is the error of a stream that ends before its done event.
var ErrIncomplete = errors.New("event stream of the run is incomplete")

const (
	// maxEvent is the largest event of a runtime: [runvalue.MaxData] and the names of the fields.
	maxEvent = runvalue.MaxData + 64<<10
	// maxName is the largest value of an event or id field.
	maxName = 128
	// maxRest limits the bytes that are read from a stream after done, and from most error responses.
	maxRest = 64 << 10
	// maxError limits those of the error response to a run, which may have all that waits.
	maxError = runvalue.MaxPendingBytes + maxRest
	// lastWait is the time to wait for the end of the stream after done. A runtime sends both
	// together, but a proxy may keep the connection open.
	lastWait = 100 * time.Millisecond
)

// Run runs an agent and yields its events as they arrive. The last one is done, or else an error:
// an [*Error] if the runtime rejected the request, [ErrIncomplete] if the stream ended before done,
// or the cause of ctx. A failed run is not an error: its [wire.Result] reports the failure.
//
// Breaking out of the loop before done, or the end of ctx, closes the connection, which cancels the
// run. Each loop over the sequence sends a request.
func (c *Client) Run(ctx context.Context, agentID string, req wire.RunRequest) iter.Seq2[wire.Event, error] {
	return func(yield func(wire.Event, error) bool) {
		events, err := c.Open(ctx, agentID, req)
		if err != nil {
			yield(wire.Event{}, err)
			return
		}

		defer func() { _ = events.Close() }() // Next has returned the error
		for {
			ev, err := events.Next()
			if err != nil {
				yield(wire.Event{}, err)
				return
			}

			payload, err := wire.DecodeEvent(ev.Type, ev.Data)
			if err != nil {
				yield(wire.Event{}, fmt.Errorf("read events of run: %w", err))
				return
			}

			more := yield(wire.Event{Payload: payload, More: events.Buffered()}, nil)
			if events.done || !more {
				return
			}
		}
	}
}

// streaming checks that the response is an event stream.
func streaming(res *http.Response) error {
	if res.StatusCode == http.StatusOK {
		return expect(res, "text/event-stream")
	}

	data, err := io.ReadAll(io.LimitReader(res.Body, maxError))
	if err != nil {
		return fmt.Errorf("read response of runtime: %w", err)
	}

	return failure(res, data)
}

// streamError returns the error of a stream that ended before done.
func streamError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("read events of run: %w", context.Cause(ctx))
	}

	_, tooLong := errors.AsType[*sse.LimitError](err)
	if _, refused := errors.AsType[*reserveError](err); refused || tooLong {
		return fmt.Errorf("read events of run: %w", err)
	}

	if errors.Is(err, io.EOF) { // the body ended without an error
		return ErrIncomplete
	}

	return fmt.Errorf("%w: %w", ErrIncomplete, err)
}

// Stream is the response to a run as it was received, for a relay that forwards events without
// decoding them. Only Received and Cancel are safe for concurrent use.
type Stream struct {
	ctx       context.Context
	cancel    context.CancelFunc
	body      *body
	events    *sse.Decoder
	done      bool
	half      interface{ CloseWrite() error } // the connection of HTTP/1, or nil
	cancelled atomic.Bool
}

// Open starts a run and returns its events. The error is that of [Client.Run] before the first
// event. The caller closes the stream. The end of ctx closes the connection, which cancels the run.
func (c *Client) Open(ctx context.Context, agentID string, req wire.RunRequest) (*Stream, error) {
	ctx, cancel := context.WithCancel(ctx)
	var conn net.Conn
	res, err := c.sendOn(ctx, &conn, http.MethodPost, runsPath(agentID), "text/event-stream", req) //nolint:bodyclose // Close closes it
	if err != nil {
		cancel()
		return nil, err
	}

	s := &Stream{ctx: ctx, cancel: cancel, body: &body{ReadCloser: res.Body, reserve: c.reserve}}
	if res.ProtoMajor == 1 { // otherwise, other requests use the connection too
		s.half, _ = conn.(interface{ CloseWrite() error })
	}

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
// error is [ErrIncomplete], an [*sse.LimitError], the error of [Config.Reserve], or the cause of
// the context.
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

// Texts appends the texts of the next events to dst, and returns it and the bytes of these events,
// which are valid until the next call of Next. It ends at the first event that is not yet in
// memory, or is not a partial message with text in exactly the form that a runtime writes.
func (s *Stream) Texts(dst []byte) ([]byte, []byte) {
	var events []byte
	s.events.Take(func(unread []byte) int {
		n := 0
		for {
			message, ok := bytes.CutPrefix(unread[n:], textHead)
			text, size := wire.AppendText(dst, message)
			if !ok || size == 0 || !bytes.HasPrefix(message[size:], textEnd) {
				break
			}

			dst, n = text, n+len(textHead)+size+len(textEnd)
		}

		events = unread[:n]
		return n
	})
	return dst, events
}

// The bytes before and after the data of the event of a partial message.
var textHead, textEnd = aroundData()

func aroundData() ([]byte, []byte) {
	const data = "{}"
	event, _ := sse.Event{Type: (*wire.PartialMessage)(nil).EventName(), Data: []byte(data)}.Append(nil) // the name is valid
	head, end, _ := bytes.Cut(event, []byte(data))
	return head, end
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

// Cancel cancels the run by ending the sent half of the connection, for which a runtime cancels it
// as for a disconnect. The stream can still be read: its last events have the usage of the run.
// Cancel fails with errors.ErrUnsupported if the runtime speaks HTTP/2.
func (s *Stream) Cancel() error {
	if s.half == nil {
		return errors.ErrUnsupported
	}

	s.cancelled.Store(true)
	if err := s.half.CloseWrite(); err != nil {
		return fmt.Errorf("cancel run: %w", err)
	}

	return nil
}

// Close closes the stream. If the last event was not done, the run is cancelled.
func (s *Stream) Close() error {
	defer s.cancel()
	if s.done && !s.cancelled.Load() {
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
