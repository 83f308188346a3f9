package sse

import "fmt"

// The methods in this file need the stream's mutex.

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
	b, err := AppendEvent(s.buf.b, ev)
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
