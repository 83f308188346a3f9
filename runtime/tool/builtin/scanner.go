package builtin

import (
	"bytes"
	"context"
	"errors"
	"io"
)

const (
	readSize        = 256 << 10 // bytes per read
	maxSearched     = 1 << 20   // bytes of a line that are searched
	maxContextBytes = 256 << 10 // bytes of context that remain in the buffer after the next read
)

// scanner searches files line by line, and passes matching lines and their context to its sink, in
// order. It holds a part of a file that ends with a line. The buffer is reused for all files.
type scanner struct {
	match         *matcher
	before, after int // lines of context
	sink          interface {
		// line receives a line without its end. more is the number of bytes that are not in text.
		// An error ends the search of the file.
		line(number int, text []byte, more int64, match bool) error
	}

	buf     []byte // a part of the file
	lower   []byte // buf in lower case, if letter case is ignored
	hits    []int  // the next offset of each literal
	at      int    // the text before this offset has been searched
	emitted int    // the text before this offset has been emitted or skipped
	owed    int    // lines of context to emit after the last match
	marked  int    // the offset of a line
	number  int    // the number of that line, from 1
	cutEnd  int    // the end of the truncated line, or -1
	cut     int64  // bytes missing from the truncated line
}

// file searches a file up to the first null byte: what follows is not text.
func (s *scanner) file(ctx context.Context, r io.Reader) error {
	s.buf = s.buf[:0]
	s.at = 0
	s.emitted = 0
	s.owed = 0
	s.marked = 0
	s.number = 1
	s.cutEnd = -1
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n, err := s.fill(r)
		if bytes.IndexByte(s.buf[len(s.buf)-n:], 0) >= 0 {
			return nil
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		end := bytes.LastIndexByte(s.buf[s.at:], '\n') + 1 + s.at
		if errors.Is(err, io.EOF) {
			end = len(s.buf)
		} else if len(s.buf)-s.at >= maxSearched && end == s.at {
			if err = s.cutLine(ctx, r); errors.Is(err, errBinary) {
				return nil
			} else if err != nil && !errors.Is(err, io.EOF) {
				return err
			}
			end = s.cutEnd + 1
			if errors.Is(err, io.EOF) {
				end = len(s.buf)
			}
		}
		if end > s.at {
			if searched := s.lines(ctx, end); searched != nil {
				return searched
			}
			s.at = end
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		s.slide()
	}
}

// fill appends the next read to the buffer.
func (s *scanner) fill(r io.Reader) (int, error) {
	have := len(s.buf)
	if cap(s.buf)-have < readSize/2 {
		grown := make([]byte, have, have+readSize)
		copy(grown, s.buf)
		s.buf = grown
	}
	room := s.buf[have : have+min(readSize, cap(s.buf)-have)]
	n, err := io.ReadFull(r, room)
	s.buf = s.buf[:have+n]
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.EOF
	}
	return n, err
}

// cutLine skips the rest of a line that is too long.
func (s *scanner) cutLine(ctx context.Context, r io.Reader) error {
	s.cutEnd, s.cut = s.at+maxSearched, 0
	rest := bytes.Clone(s.buf[s.cutEnd:])
	s.buf = append(s.buf[:s.cutEnd], '\n')
	part := make([]byte, readSize/4)
	for {
		if end := bytes.IndexByte(rest, '\n'); end >= 0 {
			s.cut += int64(end)
			s.buf = append(s.buf, rest[end+1:]...)
			return nil
		}
		s.cut += int64(len(rest))
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n, err := r.Read(part)
		rest = part[:n]
		if bytes.IndexByte(rest, 0) >= 0 {
			return errBinary
		}
		if n == 0 && err != nil {
			return err
		}
	}
}

// slide removes the text that is no longer needed from the buffer.
func (s *scanner) slide() {
	keep := s.at
	for i := 0; i < s.before && keep > s.emitted; i++ {
		above := bytes.LastIndexByte(s.buf[:keep-1], '\n') + 1
		if s.at-above > maxContextBytes {
			break
		}
		keep = above
	}
	s.numberAt(keep)
	n := copy(s.buf, s.buf[keep:])
	s.buf = s.buf[:n]
	s.at = s.at - keep
	s.emitted = max(s.emitted-keep, 0)
	s.marked = s.marked - keep
	s.cutEnd = -1
}

// numberAt returns the number of the line at an offset.
func (s *scanner) numberAt(pos int) int {
	if pos < s.marked {
		return s.number - bytes.Count(s.buf[pos:s.marked], []byte("\n"))
	}
	s.number += bytes.Count(s.buf[s.marked:pos], []byte("\n"))
	s.marked = pos
	return s.number
}

// lines searches the lines before end.
func (s *scanner) lines(ctx context.Context, end int) error {
	hay := s.buf[:end]
	if s.match.fold && len(s.match.literals) > 0 {
		s.lower = appendLower(s.lower[:0], hay)
		hay = s.lower
	}
	s.hits = s.hits[:0]
	for range s.match.literals {
		s.hits = append(s.hits, -1)
	}
	for at := s.at; at < end; {
		from, to, ok := s.next(ctx, hay, at)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if !ok {
			return s.emitAfter(end)
		}
		if err := s.emitAfter(from); err != nil {
			return err
		}
		if err := s.emitBefore(from); err != nil {
			return err
		}
		if err := s.emit(from, true); err != nil {
			return err
		}
		at, s.owed = to, s.after
	}
	return nil
}

// next returns the offsets of the first matching line at or after at, and of the line after it.
func (s *scanner) next(ctx context.Context, hay []byte, at int) (from, to int, ok bool) {
	end := len(hay)
	for n := 0; at < end; n++ {
		if n%256 == 255 && ctx.Err() != nil {
			break
		}
		hit := at
		if len(s.hits) > 0 {
			if hit = s.literal(hay, at); hit == end {
				break
			}
		}
		from = bytes.LastIndexByte(hay[at:hit], '\n') + 1 + at
		to = end
		text := s.buf[from:end]
		if i := bytes.IndexByte(hay[hit:], '\n'); i >= 0 {
			to = hit + i + 1
			text = s.buf[from : to-1]
		}
		if s.match.exact || s.match.line(ctx, text) {
			return from, to, true
		}
		at = to
	}
	return 0, 0, false
}

// literal returns the offset of the first literal at or after at.
func (s *scanner) literal(hay []byte, at int) int {
	first := len(hay)
	for i, literal := range s.match.literals {
		if s.hits[i] < at {
			s.hits[i] = len(hay)
			if j := bytes.Index(hay[at:], literal); j >= 0 {
				s.hits[i] = at + j
			}
		}
		first = min(first, s.hits[i])
	}
	return first
}

// emitAfter emits the context after the last match, up to end.
func (s *scanner) emitAfter(end int) error {
	for ; s.owed > 0 && s.emitted < end; s.owed-- {
		if err := s.emit(s.emitted, false); err != nil {
			return err
		}
	}
	return nil
}

// emitBefore emits the context before the match at pos.
func (s *scanner) emitBefore(pos int) error {
	from := pos
	for i := 0; i < s.before && from > s.emitted; i++ {
		from = bytes.LastIndexByte(s.buf[:from-1], '\n') + 1
	}
	for from < pos {
		if err := s.emit(from, false); err != nil {
			return err
		}
		from = s.emitted
	}
	return nil
}

// emit passes the line at from to the sink.
func (s *scanner) emit(from int, match bool) error {
	text := s.buf[from:]
	s.emitted = len(s.buf)
	if i := bytes.IndexByte(text, '\n'); i >= 0 {
		text = text[:i]
		s.emitted = from + i + 1
	}
	var more int64
	if s.cutEnd == from+len(text) {
		more = s.cut
	}
	return s.sink.line(s.numberAt(from), bytes.TrimSuffix(text, []byte("\r")), more, match)
}
