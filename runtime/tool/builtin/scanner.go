package builtin

import (
	"bytes"
	"context"
	"errors"
	"io"
)

const (
	window      = 256 << 10 // bytes that are read at a time
	maxSearched = 1 << 20   // bytes of a line that are searched
	keptContext = 256 << 10 // bytes before a match that are still known when the next part of the file has been read
)

// scanner searches files line by line and hands the lines that match, and those around them, to its sink in their order.
// It holds a part of a file at a time, cut at the ends of lines. The one buffer serves all files.
type scanner struct {
	match         *matcher
	before, after int // lines of context
	sink          interface {
		// line takes a line without its end, of which more bytes are not in text. An error ends the file.
		line(number int, text []byte, more int64, matches bool) error
	}

	buf    []byte // the part of the file
	lower  []byte // the same in lower case, if that is searched
	hits   []int  // where each literal stands next
	at     int    // everything before it has been searched
	given  int    // everything before it has been passed over or handed out
	owed   int    // lines of context that are to come after the last match
	marked int    // a place where a line begins, of which the number is known
	number int    // that number, from 1
	cutEnd int    // the end of the line that was cut, or -1
	cut    int64  // bytes that are missing there
}

// file searches a file. It ends at a null byte: what follows is not text.
func (s *scanner) file(ctx context.Context, r io.Reader) error {
	s.buf = s.buf[:0]
	s.at, s.given, s.owed, s.marked, s.number, s.cutEnd = 0, 0, 0, 0, 1, -1
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

// fill reads more behind what is there.
func (s *scanner) fill(r io.Reader) (int, error) {
	have := len(s.buf)
	if cap(s.buf)-have < window/2 {
		grown := make([]byte, have, have+window)
		copy(grown, s.buf)
		s.buf = grown
	}
	room := s.buf[have : have+min(window, cap(s.buf)-have)]
	n, err := io.ReadFull(r, room)
	s.buf = s.buf[:have+n]
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.EOF
	}
	return n, err
}

// cutLine passes over the rest of a line that is too long, and keeps what was read after it.
func (s *scanner) cutLine(ctx context.Context, r io.Reader) error {
	s.cutEnd, s.cut = s.at+maxSearched, 0
	rest := bytes.Clone(s.buf[s.cutEnd:])
	s.buf = append(s.buf[:s.cutEnd], '\n')
	part := make([]byte, window/4)
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

// slide drops what is not needed any more.
func (s *scanner) slide() {
	keep := s.at
	for i := 0; i < s.before && keep > s.given; i++ {
		above := bytes.LastIndexByte(s.buf[:keep-1], '\n') + 1
		if s.at-above > keptContext {
			break
		}
		keep = above
	}
	s.numberAt(keep)
	n := copy(s.buf, s.buf[keep:])
	s.buf = s.buf[:n]
	s.at, s.given, s.marked, s.cutEnd = s.at-keep, max(s.given-keep, 0), s.marked-keep, -1
}

// numberAt answers the number of the line that begins at pos. A place before the marked one may be no more than what
// is in the buffer away.
func (s *scanner) numberAt(pos int) int {
	if pos < s.marked {
		return s.number - bytes.Count(s.buf[pos:s.marked], []byte("\n"))
	}
	s.number += bytes.Count(s.buf[s.marked:pos], []byte("\n"))
	s.marked = pos
	return s.number
}

// lines searches the lines up to end.
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
			return s.rest(end)
		}
		if err := s.rest(from); err != nil {
			return err
		}
		if err := s.lead(from); err != nil {
			return err
		}
		if err := s.give(from, true); err != nil {
			return err
		}
		at, s.owed = to, s.after
	}
	return nil
}

// next finds the first line from at on that matches, and where the one after it begins.
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

// literal finds the first literal from at on.
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

// rest hands out the lines before end that are owed to the last match.
func (s *scanner) rest(end int) error {
	for ; s.owed > 0 && s.given < end; s.owed-- {
		if err := s.give(s.given, false); err != nil {
			return err
		}
	}
	return nil
}

// lead hands out the lines before the match at pos.
func (s *scanner) lead(pos int) error {
	from := pos
	for i := 0; i < s.before && from > s.given; i++ {
		from = bytes.LastIndexByte(s.buf[:from-1], '\n') + 1
	}
	for from < pos {
		if err := s.give(from, false); err != nil {
			return err
		}
		from = s.given
	}
	return nil
}

// give hands out the line that begins at from.
func (s *scanner) give(from int, matches bool) error {
	text := s.buf[from:]
	s.given = len(s.buf)
	if i := bytes.IndexByte(text, '\n'); i >= 0 {
		text = text[:i]
		s.given = from + i + 1
	}
	var more int64
	if s.cutEnd == from+len(text) {
		more = s.cut
	}
	return s.sink.line(s.numberAt(from), bytes.TrimSuffix(text, []byte("\r")), more, matches)
}
