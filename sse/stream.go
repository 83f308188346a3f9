package sse

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/http"
	"sync"
	"time"

	"github.com/seed93082962/agenthost/internal/leaf/deadline"
)

const (
	// autoFlush is the number of queued bytes at which a stream flushes.
	autoFlush = 32 << 10
)

// ErrClosed is the error of a [Stream] after Close.
var ErrClosed = errors.New("event stream is closed")

// StreamConfig is the configuration of a [Stream]. Its zero value is ready for use.
type StreamConfig struct {
	// Heartbeat is the time without a write after which the comment ": ping" is sent, so that
	// proxies do not close the connection. Negative disables it. Defaults to 15 s.
	Heartbeat time.Duration

	// WriteTimeout is the time within which a reader must read 64 KiB. Otherwise the stream fails.
	// It replaces http.Server.WriteTimeout, which would bound the whole stream. Negative sets no
	// deadlines. Defaults to 30 s.
	WriteTimeout time.Duration

	// OnError is called once if a write fails, including one of the heartbeat. It can cancel the
	// work that produces the events. It runs within the failed call or on the goroutine of the
	// heartbeat, and must not call the stream.
	OnError func(error)
}

// Stream sends events as the response to a request. It is safe for concurrent use, and events are
// never interleaved. After a failed write, every further call returns the same error.
//
// A stream holds a buffer only while events are queued, and no goroutine. Close it before the
// handler returns, usually with defer: the heartbeat must not use the http.ResponseWriter
// afterwards.
type Stream struct {
	heartbeat  time.Duration
	clearAfter bool // a deadline must not outlast the write that it is for
	onError    func(error)
	timer      *time.Timer // nil without a heartbeat

	mu        sync.Mutex // guards the fields below
	out       deadline.Writer
	buf       *buffer // nil while nothing is queued
	err       error   // of the first write that failed
	closed    bool
	lastWrite time.Time
}

type buffer struct{ b []byte }

var buffers = sync.Pool{New: func() any { return &buffer{b: make([]byte, 0, 4<<10)} }}

// NewStream starts the response with status 200 and the headers of an event stream. It keeps a
// Cache-Control or X-Accel-Buffering header of the caller, but no Content-Type and no
// Content-Length. Nothing is sent before the first flush; call [Stream.Flush] if the first event
// may take long and the client should receive the headers before.
//
// If neither w nor a writer that it unwraps to can flush, the error is http.ErrNotSupported and w
// is unchanged.
func NewStream(w http.ResponseWriter, cfg StreamConfig) (*Stream, error) {
	if !canFlush(w) {
		return nil, fmt.Errorf("open event stream: flush: %w", http.ErrNotSupported)
	}

	s := &Stream{
		out:       deadline.NewWriter(w, cfg.WriteTimeout),
		heartbeat: cmp.Or(cfg.Heartbeat, 15*time.Second),
		onError:   cfg.OnError,
		lastWrite: time.Now(),
	}
	// HTTP/2 resets a stream at its deadline even if nothing is being written. A heartbeat extends
	// the deadline in time; without one, the deadline is removed after each write.
	s.clearAfter = s.heartbeat < 0 || s.heartbeat > s.out.Timeout()/2

	h := w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	setDefault(h, "Cache-Control", "no-cache, no-transform")
	setDefault(h, "X-Accel-Buffering", "no") // otherwise nginx buffers responses
	h.Del("Content-Length")
	w.WriteHeader(http.StatusOK)

	if s.heartbeat > 0 {
		// started by Reset, because the first beat may be due before AfterFunc returns
		s.timer = time.AfterFunc(math.MaxInt64, s.beat)
		s.timer.Reset(s.heartbeat)
	}

	return s, nil
}

// Queue adds ev to the data of the next flush. It flushes if more than 32 KiB are queued. After a
// [*FieldError] the stream can be used. ev.Data is copied, so that the caller can reuse its buffer.
// The caller must remove the newline that a json.Encoder appends, since it would be sent.
func (s *Stream) Queue(ev Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queue(ev)
}

// QueueFunc is [Stream.Queue] with the data that appendData appends to dst, an empty slice of the
// stream's buffer. An encoder that appends writes without a copy and without an allocation. ev.Data
// is not used. If appendData returns an error, it is returned unchanged and nothing is sent.
// appendData must not call the stream and must not retain dst or its result.
func (s *Stream) QueueFunc(ev Event, appendData func(dst []byte) ([]byte, error)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(); err != nil {
		return err
	}

	s.need()
	b, err := appendEventFunc(s.buf.b, &ev, appendData)
	if err != nil {
		s.release()
		return err
	}

	return s.queued(b)
}

// QueueEvents adds events to the data of the next flush that are encoded as by [Event.Append]. It
// is otherwise [Stream.Queue].
func (s *Stream) QueueEvents(encoded []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(); err != nil {
		return err
	}

	s.need()
	return s.queued(append(s.buf.b, encoded...))
}

// Send queues ev and flushes.
func (s *Stream) Send(ev Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.queue(ev); err != nil || s.buf == nil { // nil: queue has flushed a large event
		return err
	}

	return s.flush()
}

// Flush sends the queued events, and the headers if they are not sent yet.
func (s *Stream) Flush() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(); err != nil {
		return err
	}

	return s.flush()
}

// Comment sends text as comment lines after the queued events. Readers ignore comments.
func (s *Stream) Comment(text string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.comment(text)
}

// Close ends the stream. It writes the queued events, which net/http sends together with the end of
// the response, and waits for a heartbeat in progress. After Close, the http.ResponseWriter is not
// used, and the handler should return: the end of the response must be sent within a WriteTimeout.
// Further calls return the same error.
func (s *Stream) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return s.err
	}

	if s.timer != nil {
		s.timer.Stop() // if this is too late, beat returns because the stream is closed
	}

	if s.err == nil && s.buf != nil {
		s.write(false) // net/http sends it together with the end of the body
	}

	if s.err == nil {
		// This deadline applies to what net/http writes after the handler. net/http removes it
		// before the next request of the connection.
		_ = s.out.Extend() // if the connection is closed, nothing is written
	}

	s.closed = true
	return s.err
}

// beat runs on the goroutine of the timer. Writes do not reset the timer: beat computes the
// remaining time. It does not wait for a write in progress, which counts as activity.
func (s *Stream) beat() {
	if !s.mu.TryLock() {
		s.timer.Reset(s.heartbeat / 8) // harmless after Close
		return
	}

	defer s.mu.Unlock()
	if s.usable() != nil {
		return
	}

	rest := s.heartbeat - time.Since(s.lastWrite)
	if rest <= 0 {
		if s.comment("ping") != nil {
			return
		}

		rest = s.heartbeat
	}

	s.timer.Reset(rest)
}

func canFlush(w http.ResponseWriter) bool {
	for {
		switch t := w.(type) {
		case interface{ FlushError() error }, http.Flusher:
			return true
		case interface{ Unwrap() http.ResponseWriter }:
			w = t.Unwrap()
		default:
			return false
		}
	}
}

func setDefault(h http.Header, key, value string) {
	if len(h.Values(key)) == 0 {
		h.Set(key, value)
	}
}

// usable returns the error of a stream that is closed or has failed. It and the methods below need
// the mutex.
func (s *Stream) usable() error {
	if s.closed {
		return ErrClosed
	}

	return s.err
}

func (s *Stream) queue(ev Event) error {
	if err := s.usable(); err != nil {
		return err
	}

	s.need()
	b, err := ev.Append(s.buf.b)
	if err != nil {
		s.release()
		return err
	}

	return s.queued(b)
}

func (s *Stream) comment(text string) error {
	if err := s.usable(); err != nil {
		return err
	}

	s.need()
	s.buf.b = appendComment(s.buf.b, text)
	return s.flush()
}

func (s *Stream) queued(b []byte) error {
	s.buf.b = b
	if len(b) >= autoFlush {
		return s.flush()
	}

	return nil
}

func (s *Stream) need() {
	if s.buf == nil {
		s.buf = buffers.Get().(*buffer)
	}
}

// release returns an empty buffer to the pool.
func (s *Stream) release() {
	if s.buf == nil || len(s.buf.b) > 0 {
		return
	}

	if cap(s.buf.b) <= keepBytes {
		buffers.Put(s.buf)
	}

	s.buf = nil
}

// flush writes the queued events. Without any, net/http sends the headers.
func (s *Stream) flush() error {
	s.write(true)
	return s.err
}

// write passes the queued events to the response writer, and flushes it on request.
func (s *Stream) write(flush bool) {
	var queued []byte
	if s.buf != nil {
		queued = s.buf.b
	}

	_, err := s.out.Write(queued)
	if err == nil && len(queued) > 0 { // a flush of headers does not keep a connection open
		s.lastWrite = s.out.Extended()
	}

	if err == nil && flush {
		err = s.flushWriter()
	}

	if s.buf != nil {
		s.buf.b = s.buf.b[:0]
		s.release()
	}

	if err == nil {
		return
	}

	s.err = fmt.Errorf("write event stream: %w", err)
	if s.timer != nil {
		s.timer.Stop()
	}

	if s.onError != nil {
		s.onError(s.err)
	}
}

func (s *Stream) flushWriter() error {
	if err := s.out.Flush(); err != nil {
		return err
	}

	if s.clearAfter {
		return s.out.Clear()
	}

	return nil
}
