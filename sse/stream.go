package sse

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/http"
	"sync"
	"time"
)

const (
	// autoFlush is how much a stream gathers before it writes by itself.
	autoFlush = 32 << 10

	// chunkBytes is written for each deadline: a large event to a slow reader is progress as
	// long as the reader takes this much in a WriteTimeout.
	chunkBytes = 64 << 10
)

// ErrClosed is what a [Stream] answers after Close.
var ErrClosed = errors.New("event stream is closed")

// StreamConfig is the configuration of a [Stream]. Its zero value is ready for use.
type StreamConfig struct {
	// Heartbeat is how long nothing may be written before a comment ": ping" is, which keeps
	// proxies from taking the connection for dead. Negative turns it off. Defaults to 15 s.
	Heartbeat time.Duration

	// WriteTimeout is how long a reader may take for 64 KiB before the stream fails. It stands
	// in for http.Server.WriteTimeout, which would bound the whole stream. Negative leaves
	// deadlines alone. Defaults to 30 s.
	WriteTimeout time.Duration

	// OnError is called once, when a write failed, also one of the heartbeat's. It is the place
	// to cancel the work behind the stream. It runs within the failed call or on the
	// heartbeat's goroutine, and must not call the stream.
	OnError func(error)
}

// Stream sends events as the answer to a request. Every event arrives whole, also where
// goroutines send side by side. After a failed write, every further call returns its error.
//
// A stream holds no buffer while there is nothing to flush, and no goroutine. Close it before
// the handler returns (defer does): the heartbeat would use a dead http.ResponseWriter.
type Stream struct {
	w            http.ResponseWriter
	rc           *http.ResponseController
	heartbeat    time.Duration
	writeTimeout time.Duration // 0: w knows no deadlines, or none are wanted
	clearAfter   bool          // a deadline must not outlast the write that it is for
	onError      func(error)
	timer        *time.Timer // nil without a heartbeat

	mu        sync.Mutex // guards what follows, and every use of w and rc
	buf       *buffer    // nil while nothing is queued
	err       error      // of the first write that failed
	closed    bool
	lastWrite time.Time
}

type buffer struct{ b []byte }

var buffers = sync.Pool{New: func() any { return &buffer{b: make([]byte, 0, 4<<10)} }}

// NewStream begins the answer: status 200 and the headers of an event stream. A Cache-Control or
// X-Accel-Buffering that the caller has set stays, any Content-Type and Content-Length does not.
// Nothing is sent before the first flush; call [Stream.Flush] at once where the first event may
// take its time and the client should know that it is connected.
//
// It fails, with w untouched, where neither w nor a writer that its Unwrap leads to can flush;
// the error is an http.ErrNotSupported then.
func NewStream(w http.ResponseWriter, cfg StreamConfig) (*Stream, error) {
	if !canFlush(w) {
		return nil, fmt.Errorf("open event stream: flush: %w", http.ErrNotSupported)
	}
	s := &Stream{
		w:            w,
		rc:           http.NewResponseController(w),
		heartbeat:    cmp.Or(cfg.Heartbeat, 15*time.Second),
		writeTimeout: max(0, cmp.Or(cfg.WriteTimeout, 30*time.Second)),
		onError:      cfg.OnError,
		lastWrite:    time.Now(),
	}
	// HTTP/2 resets a stream at its deadline even where nothing is being written. A heartbeat
	// moves the deadline on in time; without one it is taken away after each write.
	s.clearAfter = s.heartbeat < 0 || s.heartbeat > s.writeTimeout/2

	h := w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	setDefault(h, "Cache-Control", "no-cache, no-transform")
	setDefault(h, "X-Accel-Buffering", "no") // nginx holds answers back otherwise
	h.Del("Content-Length")
	w.WriteHeader(http.StatusOK)

	if s.heartbeat > 0 {
		// Started by Reset, as the first beat may be due before AfterFunc has returned.
		s.timer = time.AfterFunc(math.MaxInt64, s.beat)
		s.timer.Reset(s.heartbeat)
	}
	return s, nil
}

// Queue adds ev to what the next flush sends. It flushes by itself past 32 KiB. A [*FieldError]
// leaves the stream usable. ev.Data is copied, so that one buffer of the caller's does for all
// events; what a json.Encoder has written wants its trailing newline cut off, which would be sent.
func (s *Stream) Queue(ev Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queue(&ev)
}

// QueueFunc is [Stream.Queue] with the data that appendData appends to dst, which is empty and
// has the stream's own buffer behind it: an append-style encoder writes there without a copy and
// without an allocation. ev.Data is not used. An error of appendData is returned as it is and
// sends nothing. appendData must not call the stream, nor keep dst or what it returns.
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

// Send is [Stream.Queue] and [Stream.Flush].
func (s *Stream) Send(ev Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.queue(&ev); err != nil || s.buf == nil { // nil: a large one is out already
		return err
	}
	return s.flush()
}

// Flush sends what is queued, and the headers if they have not gone yet.
func (s *Stream) Flush() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(); err != nil {
		return err
	}
	return s.flush()
}

// Comment sends text as comment lines, which readers ignore, after what is queued.
func (s *Stream) Comment(text string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.comment(text)
}

// Close flushes and ends the stream, after waiting for a heartbeat under way. The
// http.ResponseWriter is not used once it has returned; the handler should return as well, as
// the end of the answer has to be out within a WriteTimeout. Closing again returns the same.
func (s *Stream) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return s.err
	}
	if s.timer != nil {
		s.timer.Stop() // beat sees closed where this comes too late
	}
	if s.err == nil && s.buf != nil {
		s.write()
	}
	if s.err == nil {
		// What net/http writes after the handler has this deadline, and not an old one that may
		// have passed. It takes the deadline away before the connection's next request.
		_ = s.setDeadline(time.Now()) // a connection that is gone has nothing left to be written
	}
	s.closed = true
	return s.err
}

// beat runs on the timer's goroutine. Writes do not touch the timer: it finds out by itself how
// much of the time is left. It does not queue behind a write under way, which may take as long
// as the reader likes, and is a sign of life itself.
func (s *Stream) beat() {
	if !s.mu.TryLock() {
		s.timer.Reset(s.heartbeat / 8) // once more after Close: harmless
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
