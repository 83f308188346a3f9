package sse

import (
	"errors"
	"fmt"
	"net/http"
	"time"
)

// The methods of this file run under the stream's mutex.

func (s *Stream) usable() error {
	if s.closed {
		return ErrClosed
	}
	return s.err
}

func (s *Stream) queue(ev *Event) error {
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

// release gives an empty buffer back.
func (s *Stream) release() {
	if s.buf == nil || len(s.buf.b) > 0 {
		return
	}
	if cap(s.buf.b) <= keepBytes {
		buffers.Put(s.buf)
	}
	s.buf = nil
}

// flush writes what is queued. With nothing queued it still makes net/http send the headers.
func (s *Stream) flush() error {
	s.write()
	return s.err
}

func (s *Stream) write() {
	var rest []byte
	if s.buf != nil {
		rest = s.buf.b
	}
	err := s.writeChunks(rest)
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

func (s *Stream) writeChunks(rest []byte) error {
	for {
		now := time.Now()
		if len(rest) > 0 { // a flush of nothing keeps no connection alive
			s.lastWrite = now
		}
		if err := s.setDeadline(now); err != nil {
			return err
		}
		chunk := rest[:min(len(rest), chunkBytes)]
		rest = rest[len(chunk):]
		if len(chunk) > 0 {
			if _, err := s.w.Write(chunk); err != nil {
				return err
			}
		}
		if len(rest) == 0 {
			break
		}
	}
	if err := s.rc.Flush(); err != nil {
		return err
	}
	if s.clearAfter && s.writeTimeout > 0 {
		return s.rc.SetWriteDeadline(time.Time{})
	}
	return nil
}

func (s *Stream) setDeadline(now time.Time) error {
	if s.writeTimeout == 0 {
		return nil
	}
	err := s.rc.SetWriteDeadline(now.Add(s.writeTimeout))
	if errors.Is(err, http.ErrNotSupported) {
		s.writeTimeout = 0
		return nil
	}
	return err
}
